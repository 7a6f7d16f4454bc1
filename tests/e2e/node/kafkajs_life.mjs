// SCENARIO BOOTSTRAP TOPIC GROUP: one scenario with the client kafkajs; prints the result as JSON on stdout.
import { readFileSync } from 'node:fs'
import kafkajs from 'kafkajs'

const { AssignerProtocol, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs
const [scenario, bootstrap, topic, groupId] = process.argv.slice(2)
const { LIFE_USER: username, LIFE_PASSWORD: password, LIFE_CA: authority } = process.env
// TLS and a login, if the environment names a user.
const secured = username ? { ssl: { ca: [readFileSync(authority)] }, sasl: { mechanism: 'scram-sha-512', username, password } } : {}
const kafka = new Kafka({ clientId: 'life', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 }, ...secured })
const open = []

async function connected (client) {
  await client.connect()
  open.push(client)
  return client
}
const admin = () => connected(kafka.admin())
const producer = (options) => connected(kafka.producer(options))
const consumer = () => connected(kafka.consumer({ groupId, heartbeatInterval: 100, sessionTimeout: 6000, maxWaitTimeInMs: 50, rebalanceTimeout: 5000 }))

async function create (numPartitions = 1, configEntries = []) {
  await (await admin()).createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }], waitForLeaders: true })
}

async function send (values, { partition = 0, options, ...rest } = {}) {
  return (await producer(options)).send({ topic, acks: -1, messages: values.map(value => ({ value, partition })), ...rest })
}

async function until (condition) {
  const end = Date.now() + 30_000
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 30))
  }
}

// Run a consumer until it has `count` records.
async function read (count, { seekTo, fromBeginning = true, commit } = {}) {
  const client = await consumer()
  const taken = []
  await client.subscribe({ topics: [topic], fromBeginning })
  client.run({
    autoCommit: false,
    eachMessage: async ({ message, partition }) => {
      if (taken.length < count) taken.push({ ...message, partition })
    }
  })
  if (seekTo !== undefined) client.seek({ topic, partition: 0, offset: seekTo })
  await until(() => taken.length >= count)
  if (commit !== undefined) await client.commitOffsets([{ topic, partition: 0, offset: commit }])
  await client.disconnect()
  return taken
}

async function errorType (promise) {
  try {
    await promise
    return null
  } catch (error) {
    return error.type ?? error.errors?.[0]?.type ?? error.groups?.[0]?.error?.type ?? error.cause?.type ?? String(error)
  }
}

const scenarios = {
  async topics () {
    const client = await admin()
    const made = await client.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1 }] })
    const again = await client.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1 }] })
    await client.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    await until(async () => (await client.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 3)
    const cluster = await client.describeCluster()
    const listed = (await client.listTopics()).includes(topic)
    await client.deleteTopics({ topics: [topic] })
    await until(async () => !(await client.listTopics()).includes(topic))
    return { made, again, listed, brokers: cluster.brokers.map(({ host, port }) => `${host}:${port}`) }
  },

  async settings () {
    await create(1, [{ name: 'retention.ms', value: '100000' }])
    const client = await admin()
    const shown = async () => {
      const found = await client.describeConfigs({ includeSynonyms: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms'] }] })
      return found.resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue])
    }
    const before = await shown()
    await client.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '55000' }] }] })
    await until(async () => (await shown())[0][1] === '55000')
    return { before, wrong: await errorType(client.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: 'x' }] }] })) }
  },

  async records () {
    await create()
    const now = Date.now() - 5000
    await (await producer()).send({
      topic,
      acks: -1,
      messages: [
        { key: 'k', value: 'v', headers: { a: ['1', '2'], b: '' }, timestamp: String(now), partition: 0 },
        { value: 'no key', timestamp: String(now + 1), partition: 0 },
        { key: 'no value', value: null, timestamp: String(now + 2), partition: 0 }
      ]
    })
    return (await read(3)).map(message => ({
      key: message.key?.toString() ?? null,
      value: message.value?.toString() ?? null,
      headers: Object.entries(message.headers).map(([name, value]) => [name, [value].flat().map(String)]),
      after: Number(message.timestamp) - now,
      offset: message.offset
    }))
  },

  async gzip () {
    await create()
    const values = Array.from({ length: 500 }, (_, index) => `value ${index}`)
    await send(values, { compression: CompressionTypes.GZIP })
    return (await read(500)).map(message => message.value.toString()).join() === values.join()
  },

  async idempotent () {
    await create()
    const client = await producer({ idempotent: true })
    for (let at = 0; at < 30; at++) {
      await client.send({ topic, acks: -1, messages: Array.from({ length: 10 }, (_, index) => ({ value: String(at * 10 + index), partition: 0 })) })
    }
    return (await read(300)).map(message => message.value.toString())
  },

  async tooLarge () {
    await create(1, [{ name: 'max.message.bytes', value: '1000' }])
    return [await errorType(send(['x'.repeat(2000)])), await errorType(send(['small']))]
  },

  async offsets () {
    await create()
    const base = Date.now() - 60_000
    const client = await producer()
    for (let index = 0; index < 10; index++) {
      await client.send({ topic, acks: -1, messages: [{ value: String(index), partition: 0, timestamp: String(base + 100 * index) }] })
    }
    const asker = await admin()
    const ends = await asker.fetchTopicOffsets(topic)
    const [byTime] = await asker.fetchTopicOffsetsByTimestamp(topic, base + 101)
    await asker.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '4' }] })
    const [after] = await asker.fetchTopicOffsets(topic)
    return { ends: ends.map(({ low, high }) => [low, high]), byTime: byTime.offset, low: after.low, sought: (await read(2, { seekTo: '7' })).map(message => message.value.toString()) }
  },

  async commitAndGoOn () {
    await create()
    await send(Array.from({ length: 10 }, (_, index) => String(index)))
    await read(4, { commit: '4' })
    return (await read(6)).map(message => message.value.toString())
  },

  async pause () {
    await create()
    await send(['0', '1'])
    const client = await consumer()
    const taken = []
    await client.subscribe({ topics: [topic], fromBeginning: true })
    client.run({ autoCommit: false, eachMessage: async ({ message }) => taken.push(message.value.toString()) })
    await until(() => taken.length === 2)
    client.pause([{ topic }])
    await send(['2'])
    // Several fetches of an unpaused consumer would have returned by now.
    await new Promise(resolve => setTimeout(resolve, 400))
    const paused = [...taken]
    client.resume([{ topic }])
    await until(() => taken.length === 3)
    return { paused, resumed: taken }
  },

  async groups () {
    await create(2)
    await send(['a'])
    const members = [await consumer(), await consumer()]
    const owned = members.map(() => [])
    for (const [index, member] of members.entries()) {
      member.on(member.events.GROUP_JOIN, ({ payload }) => { owned[index] = payload.memberAssignment[topic] ?? [] })
      await member.subscribe({ topics: [topic], fromBeginning: true })
      member.run({ eachMessage: async () => {} })
    }
    await until(() => owned.every(part => part.length === 1) && owned.flat().sort().join() === '0,1')
    const client = await admin()
    const listed = (await client.listGroups()).groups.some(group => group.groupId === groupId)
    const [described] = (await client.describeGroups([groupId])).groups
    const assigned = described.members.map(member => AssignerProtocol.MemberAssignment.decode(member.memberAssignment).assignment[topic])
    const notEmpty = await errorType(client.deleteGroups([groupId]))
    await members[0].disconnect()
    await until(() => owned[1].length === 2)
    await members[1].disconnect()
    await until(async () => (await client.describeGroups([groupId])).groups[0].state === 'Empty')
    await client.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '1' }] })
    const [offsets] = await client.fetchOffsets({ groupId, topics: [topic] })
    await client.deleteGroups([groupId])
    return {
      listed,
      state: described.state,
      protocol: described.protocol,
      hosts: [...new Set(described.members.map(member => member.clientHost))],
      assigned: assigned.flat().sort(),
      notEmpty,
      offset: offsets.partitions.find(found => found.partition === 0).offset,
      gone: !(await client.listGroups()).groups.some(group => group.groupId === groupId)
    }
  }
}

const answer = JSON.stringify(await scenarios[scenario]())
for (const client of open) await client.disconnect().catch(() => {})
process.stdout.write(answer, () => process.exit(0))
