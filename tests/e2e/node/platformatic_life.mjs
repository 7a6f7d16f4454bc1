// SCENARIO BOOTSTRAP TOPIC GROUP: one scenario with the client @platformatic/kafka; prints the result as JSON on stdout.
import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'

const [scenario, bootstrap, topic, groupId] = process.argv.slice(2)
const common = { clientId: 'life', bootstrapBrokers: [bootstrap], strict: true, retries: 5, retryDelay: 100, autocreateTopics: false }
const TOPIC = 2

function make (kind, options = {}) {
  return new kind({ ...common, ...options })
}
const admin = () => make(Admin)
const producer = (options) => make(Producer, { serializers: stringSerializers, ...options })
const consumer = (options) => make(Consumer, {
  groupId,
  deserializers: stringDeserializers,
  autocommit: false,
  maxWaitTime: 50,
  heartbeatInterval: 100,
  sessionTimeout: 6000,
  ...options
})

async function create (partitions = 1, configs = []) {
  await admin().createTopics({ topics: [topic], partitions, replicas: 1, configs })
}

async function send (values, options = {}, partition = 0) {
  await (options.client ?? producer()).send({ messages: values.map(value => ({ topic, value, partition })), acks: -1, ...options.send })
}

async function take (stream, count) {
  const taken = []
  for await (const message of stream) {
    taken.push(message)
    if (taken.length === count) break
  }
  return taken
}

async function read (count, options = {}, from = { mode: 'earliest' }) {
  const reader = consumer(options)
  const taken = await take(await reader.consume({ topics: [topic], ...from }), count)
  await reader.close(true)
  return taken
}

async function errorCode (promise) {
  try {
    await promise
    return 0
  } catch (error) {
    const seen = [error]
    while (seen.length) {
      const next = seen.pop()
      if (next?.apiId) return next.apiId
      if (next?.cause) seen.push(next.cause)
      seen.push(...(next?.errors ?? []))
    }
    return String(error)
  }
}

const until = async (condition) => {
  const end = Date.now() + 30_000
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 30))
  }
}

const scenarios = {
  async topics () {
    const client = admin()
    const [made] = await client.createTopics({ topics: [topic], partitions: 2, replicas: 1, configs: [{ name: 'retention.ms', value: '100000' }] })
    const again = await errorCode(client.createTopics({ topics: [topic], partitions: 2, replicas: 1 }))
    await client.createPartitions({ topics: [{ name: topic, count: 4 }], validateOnly: false })
    let metadata
    await until(async () => {
      metadata = await client.metadata({ topics: [topic], forceUpdate: true })
      return metadata.topics.get(topic).partitionsCount === 4
    })
    const listed = (await client.listTopics()).includes(topic)
    await client.deleteTopics({ topics: [topic] })
    await until(async () => !(await client.listTopics()).includes(topic))
    return {
      made: { name: made.name, partitions: made.partitions, replicas: made.replicas, retention: made.configuration['retention.ms'] },
      sameId: made.id === metadata.topics.get(topic).id,
      again,
      partitions: metadata.topics.get(topic).partitionsCount,
      brokers: [...metadata.brokers.values()].map(({ host, port }) => `${host}:${port}`),
      listed
    }
  },

  async settings () {
    await create(1, [{ name: 'retention.ms', value: '100000' }])
    const client = admin()
    const shown = async () => {
      const [found] = await client.describeConfigs({ resources: [{ resourceType: TOPIC, resourceName: topic, configurationKeys: ['retention.ms', 'segment.ms'] }], includeSynonyms: true })
      return Object.fromEntries(found.configs.map(({ name, value, configSource }) => [name, [value, configSource]]))
    }
    const first = await shown()
    await client.incrementalAlterConfigs({
      resources: [{
        resourceType: TOPIC,
        resourceName: topic,
        configs: [{ name: 'segment.ms', configOperation: 0, value: '50000' }, { name: 'retention.ms', configOperation: 1 }]
      }]
    })
    await until(async () => (await shown())['segment.ms'][0] === '50000')
    const second = await shown()
    await client.alterConfigs({ resources: [{ resourceType: TOPIC, resourceName: topic, configs: [{ name: 'retention.ms', value: '77000' }] }] })
    await until(async () => (await shown())['retention.ms'][0] === '77000')
    return { first, second, third: await shown() }
  },

  async records () {
    await create()
    const timestamp = BigInt(Date.now() - 1000)
    const headers = new Map([['a', '1'], ['empty', '']])
    await producer().send({
      messages: [
        { topic, key: 'k', value: 'v', headers, timestamp, partition: 0 },
        { topic, value: 'no key', timestamp: timestamp + 1n, partition: 0 },
        { topic, key: 'no value', value: null, timestamp: timestamp + 2n, partition: 0 }
      ],
      acks: -1
    })
    const got = await read(3)
    return got.map(message => ({
      key: message.key ?? null,
      value: message.value ?? null,
      headers: [...message.headers],
      after: Number(message.timestamp - timestamp),
      offset: Number(message.offset)
    }))
  },

  async large () {
    await create(1, [{ name: 'max.message.bytes', value: '5000000' }])
    const value = 'abcdefgh'.repeat(500_000)
    await send([value, 'small'])
    const got = await read(2, { maxBytesPerPartition: 100_000, maxBytes: 100_000 })
    return [got[0].value === value, got[1].value]
  },

  async tooLarge () {
    await create(1, [{ name: 'max.message.bytes', value: '1000' }])
    return [await errorCode(send(['x'.repeat(2000)])), await errorCode(send(['x'.repeat(200)]))]
  },

  async idempotent () {
    await create()
    const client = producer({ idempotent: true })
    for (let at = 0; at < 30; at++) {
      await send(Array.from({ length: 10 }, (_, index) => String(at * 10 + index)), { client })
    }
    return (await read(300)).map(message => message.value)
  },

  async offsets () {
    await create()
    const base = BigInt(Date.now() - 60_000)
    for (const delta of [0n, 500n, 100n]) {
      await producer().send({ messages: [{ topic, value: 'x', timestamp: base + delta, partition: 0 }], acks: -1 })
    }
    const client = admin()
    const ask = async (timestamp) => {
      const [found] = await client.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp }] }] })
      return Number(found.partitions[0].offset)
    }
    const answers = { earliest: await ask(-2n), latest: await ask(-1n), max: await ask(-3n), time: await ask(base + 1n), never: await ask(base + 501n) }
    const [deleted] = await client.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 2n }] }] })
    answers.lowWatermark = Number(deleted.partitions[0].lowWatermark)
    answers.afterDeletion = await ask(-2n)
    answers.left = (await read(1)).map(message => Number(message.offset))
    return answers
  },

  async seek () {
    await create()
    await send(Array.from({ length: 10 }, (_, index) => String(index)))
    const from = { mode: 'manual', offsets: [{ topic, partition: 0, offset: 7n }] }
    return (await read(3, {}, from)).map(message => message.value)
  },

  async commitAndGoOn () {
    await create()
    await send(Array.from({ length: 10 }, (_, index) => String(index)))
    const first = consumer()
    const taken = await take(await first.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' }), 4)
    await taken.at(-1).commit()
    const committed = (await first.listCommittedOffsets({ topics: [{ topic, partitions: [0] }] })).get(topic)
    await first.close(true)
    const rest = await read(6, {}, { mode: 'committed', fallbackMode: 'earliest' })
    return { committed: committed.map(Number), rest: rest.map(message => message.value) }
  },

  async groups () {
    await create()
    await send(['a', 'b'])
    const reader = consumer()
    const stream = await reader.consume({ topics: [topic], mode: 'earliest' })
    const [first] = await take(stream, 1)
    await first.commit()
    const client = admin()
    const again = consumer()
    await again.consume({ topics: [topic], mode: 'earliest' })
    const listed = (await client.listGroups({ types: ['classic'] })).get(groupId)
    const described = (await client.describeGroups({ groups: [groupId] })).get(groupId)
    const notEmpty = await errorCode(client.deleteGroups({ groups: [groupId] }))
    await again.close(true)
    await reader.close(true)
    await until(async () => (await client.describeGroups({ groups: [groupId] })).get(groupId).state === 'Empty')
    await client.alterConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionOffsets: [{ partition: 0, offset: 2n }] }] })
    const [offsets] = await client.listConsumerGroupOffsets({ groups: [groupId] })
    await client.deleteConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionIndexes: [0] }] })
    const [none] = await client.listConsumerGroupOffsets({ groups: [groupId] })
    await client.deleteGroups({ groups: [groupId] })
    return {
      listed: listed.groupType,
      state: described.state,
      clients: [...new Set([...described.members.values()].map(member => member.clientId))],
      notEmpty,
      offset: Number(offsets.topics[0].partitions[0].committedOffset),
      none: none.topics.flatMap(found => found.partitions).map(partition => Number(partition.committedOffset)),
      gone: !(await client.listGroups({ types: ['classic'] })).has(groupId)
    }
  },

  async members () {
    await create(4)
    const members = [consumer(), consumer({ groupInstanceId: 'static' })]
    const owned = member => (member.assignments ?? []).flatMap(found => found.partitions)
    for (const member of members) {
      await member.consume({ topics: [topic], mode: 'earliest' })
    }
    const shared = count => members.flatMap(owned).sort().join() === '0,1,2,3' && members.every(member => owned(member).length === count)
    await until(async () => shared(2))
    await members.shift().close(true)
    await until(async () => shared(4))
    return owned(members[0]).sort()
  },

  async logDirectories () {
    await create()
    await send(['x'.repeat(1000)])
    const [found] = await admin().describeLogDirs({ topics: [{ name: topic, partitions: [0] }] })
    return found.results.map(result => ({ directory: result.logDir, size: Number(result.topics[0].partitions[0].partitionSize) }))
  }
}

const answer = JSON.stringify(await scenarios[scenario]())
// The clients are not closed here: each scenario closes those whose close it tests.
process.stdout.write(answer, () => process.exit(0))
