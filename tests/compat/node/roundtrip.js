// Prints what kafkajs saw, as JSON on the last line. Usage: node roundtrip.js BOOTSTRAP TOPIC
const { Kafka, CompressionTypes, logLevel, KafkaJSProtocolError } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'compat', brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { retries: 3 } })

const typeOf = error => error.type || (error.cause && error.cause.type) || error.name
const refused = async work => {
  try {
    await work
    return 'accepted'
  } catch (error) {
    const inner = error.errors && error.errors.length ? error.errors[0] : error
    return typeOf(inner)
  }
}

async function produce(saw) {
  for (const idempotent of [false, true]) {
    const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 })
    await producer.connect()
    const messages = [
      { key: 'k', value: 'v', headers: { h: '1' }, timestamp: '1700000000123', partition: 1 },
      { key: 'tombstone', value: null, partition: 1 },
      { key: null, value: Buffer.from([0, 255]), partition: 1 }
    ]
    const sent = await producer.send({ topic, acks: -1, messages })
    saw[idempotent ? 'idempotent' : 'plain'] = sent.map(({ partition, errorCode, baseOffset }) => ({ partition, errorCode, baseOffset }))
    if (!idempotent) {
      await producer.send({ topic, acks: 1, compression: CompressionTypes.GZIP, messages: [{ value: 'gzip', partition: 0 }] })
      await producer.send({ topic, acks: 0, messages: [{ value: 'acks 0', partition: 0 }] })
    }
    await producer.disconnect()
  }
}

async function administer(saw) {
  const admin = kafka.admin()
  await admin.connect()
  const other = `${topic}-other`
  saw.created = await admin.createTopics({ topics: [{ topic: other, numPartitions: 2, configEntries: [{ name: 'retention.ms', value: '12345' }] }] })
  saw.createdAgain = await admin.createTopics({ topics: [{ topic: other }] })
  saw.badName = await refused(admin.createTopics({ topics: [{ topic: 'a b' }] }))
  saw.badFactor = await refused(admin.createTopics({ topics: [{ topic: `${topic}-x`, replicationFactor: 3 }] }))
  await admin.createPartitions({ topicPartitions: [{ topic: other, count: 3 }] })
  const metadata = await admin.fetchTopicMetadata({ topics: [other] })
  saw.partitions = metadata.topics[0].partitions.map(p => p.partitionId).sort()
  const configs = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: other, configNames: ['retention.ms'] }] })
  saw.retention = configs.resources[0].configEntries.map(e => e.configValue)
  await admin.alterConfigs({ resources: [{ type: 2, name: other, configEntries: [{ name: 'segment.ms', value: '77777' }] }] })
  const cluster = await admin.describeCluster()
  saw.brokers = cluster.brokers.map(b => `${b.host}:${b.port}`)
  saw.offsets = (await admin.fetchTopicOffsets(topic)).sort((a, b) => a.partition - b.partition)
  saw.offsetsByTime = await admin.fetchTopicOffsetsByTimestamp(topic, 1700000000000)
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 1, offset: '2' }] })
  saw.afterDeletion = (await admin.fetchTopicOffsets(topic)).filter(o => o.partition === 1)
  saw.listed = (await admin.listTopics()).includes(other)
  await admin.deleteTopics({ topics: [other] })
  saw.deletedAgain = await refused(admin.deleteTopics({ topics: [other] }))
  await admin.disconnect()
}

async function main() {
  const saw = {}
  await produce(saw)
  await administer(saw)
  console.log(JSON.stringify(saw))
}

main().then(() => process.exit(0), error => { console.error(error); process.exit(1) })
