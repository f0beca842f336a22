// A kafkajs member of a group: prints what happens to it as JSON lines, and leaves cleanly when stdin ends.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, group, name] = process.argv.slice(2)
const say = (event, fields) => console.log(JSON.stringify({ event, ...fields }))
const kafka = new Kafka({ clientId: name, brokers: [bootstrap], logLevel: logLevel.NOTHING })
const consumer = kafka.consumer({
  groupId: group,
  sessionTimeout: 6000,
  heartbeatInterval: 100,
  maxWaitTimeInMs: 50,
})

async function main() {
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    say('assigned', { partitions: payload.memberAssignment[topic] || [] }),
  )
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ partition, message }) => say('seen', { partition, offset: Number(message.offset) }),
  })
  process.stdin.on('end', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
  process.stdin.resume()
}

main().catch((error) => {
  say('failed', { error: String(error) })
  process.exit(1)
})
