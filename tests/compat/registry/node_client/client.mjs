// Writes and reads records of an Avro schema: Confluent's serializers with the schema registry, kafkajs with the broker.
//
//   client.mjs write REGISTRY BOOTSTRAP TOPIC SCHEMA ITEM COUNT
//   client.mjs read REGISTRY BOOTSTRAP TOPIC RECORDS
//
// `read` prints the records as a JSON list of [id, item, count].

import { AvroDeserializer, AvroSerializer, SchemaRegistryClient, SerdeType } from '@confluentinc/schemaregistry'
import kafkajs from 'kafkajs'

const { Kafka, logLevel } = kafkajs
const [mode, registry, bootstrap, topic, ...rest] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })
const schemas = new SchemaRegistryClient({ baseURLs: [registry] })

async function write(schema, item, count) {
  await schemas.register(`${topic}-value`, { schemaType: 'AVRO', schema })
  const serializer = new AvroSerializer(schemas, SerdeType.VALUE, { useLatestVersion: true })
  const value = await serializer.serialize(topic, { item, count: Number(count) })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value }] })
  await producer.disconnect()
}

async function read(wanted) {
  const deserializer = new AvroDeserializer(schemas, SerdeType.VALUE, {})
  const consumer = kafka.consumer({ groupId: `node-${topic}` })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const found = []
  await new Promise((resolve, reject) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        try {
          const order = await deserializer.deserialize(topic, message.value)
          found.push([message.value.readUInt32BE(1), order.item, order.count])
          if (found.length === wanted) resolve()
        } catch (error) {
          reject(error)
        }
      },
    })
  })
  await consumer.disconnect()
  console.log(JSON.stringify(found))
}

await (mode === 'write' ? write(...rest) : read(Number(rest[0])))
