// The JavaScript client `ksqldb-client` (HTTP/2), with the arguments HOST, PORT and NAME. Prints one line of JSON.
const KsqldbClient = require("ksqldb-client");

const [host, port, stream] = process.argv.slice(2);

async function main() {
    const client = new KsqldbClient({ host: `http://${host}`, port: Number(port) });
    await client.connect();
    const created = await client.executeStatement(
        "CREATE STREAM ${NAME} (id BIGINT KEY, page VARCHAR)" +
            " WITH (kafka_topic='${NAME}', partitions=1, value_format='JSON');",
        { sessionVariables: { NAME: stream } },
    );
    await client.executeStatement(
        `CREATE TABLE ${stream}_counts AS SELECT page, COUNT(*) AS n FROM ${stream} GROUP BY page;`,
        { streamsProperties: { "auto.offset.reset": "earliest" } },
    );
    const inserted = await client.insertInto(stream, { ID: 1, PAGE: "a" });
    let pushed = null;
    const ended = await client.streamQuery(
        `SELECT * FROM ${stream} EMIT CHANGES;`,
        async ({ metadata, rows }) => {
            if (rows && rows.length && !pushed) {
                pushed = rows;
                await client.terminatePushQuery(metadata.queryId);
            }
        },
        { properties: { "auto.offset.reset": "earliest" } },
    );
    let pulled = [];
    while (!pulled.length) {
        const { data } = await client.query(`SELECT * FROM ${stream}_counts WHERE page = 'a';`);
        pulled = data.rows;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const streams = (await client.listStreams()).map((each) => each.name);
    const source = await client.describeSource(stream);
    const { error } = await client.query("SELECT * FROM no_such_stream;");
    await client.disconnect();
    console.log(
        JSON.stringify({
            created: created.status,
            inserted: inserted.data.rows,
            pushed,
            ended: ended.status,
            pulled,
            streams,
            fields: source.fields.map((each) => each.name),
            error,
        }),
    );
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
