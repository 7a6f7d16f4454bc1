// produce BOOTSTRAP TOPIC CODEC: records from stdin, each a 4-byte key length, a 4-byte value length, key, value.
// consume BOOTSTRAP TOPIC COUNT: the first COUNT records of a one-partition topic to stdout, in the same form.
import { once } from 'node:events'
import { Consumer, Producer } from '@platformatic/kafka'

const BATCH_RECORDS = 500
const [command, bootstrap, topic, argument] = process.argv.slice(2)
const common = { clientId: 'broker-cy-tests', bootstrapBrokers: [bootstrap], strict: true }

async function readAll (stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

function * framed (data) {
  for (let at = 0; at < data.length;) {
    const keyEnd = at + 8 + data.readUInt32BE(at)
    const end = keyEnd + data.readUInt32BE(at + 4)
    yield { topic, key: data.subarray(at + 8, keyEnd), value: data.subarray(keyEnd, end) }
    at = end
  }
}

async function produce () {
  const producer = new Producer(common)
  const messages = [...framed(await readAll(process.stdin))]
  for (let at = 0; at < messages.length; at += BATCH_RECORDS) {
    await producer.send({ messages: messages.slice(at, at + BATCH_RECORDS), acks: -1, compression: argument })
  }
  await producer.close()
}

async function consume () {
  const count = Number(argument)
  const consumer = new Consumer({ ...common, groupId: `reader-of-${topic}`, autocommit: false, maxWaitTime: 100 })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest' })
  const chunks = []
  let seen = 0
  for await (const message of stream) {
    const lengths = Buffer.alloc(8)
    lengths.writeUInt32BE(message.key.length, 0)
    lengths.writeUInt32BE(message.value.length, 4)
    chunks.push(lengths, message.key, message.value)
    if (++seen === count) break
  }
  await consumer.close(true)
  if (!process.stdout.write(Buffer.concat(chunks))) await once(process.stdout, 'drain')
}

await (command === 'produce' ? produce() : consume())
