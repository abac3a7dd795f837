// A small gossipsub peer for the interoperability tests, on js-libp2p. ../README.md describes its input and output.
import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'

// js-libp2p needs this function, which Node 20 lacks
Promise.withResolvers ??= function () {
  let resolve, reject
  const promise = new Promise((a, b) => { resolve = a; reject = b })
  return { promise, resolve, reject }
}

const { createLibp2p } = await import('libp2p')
const { noise } = await import('@chainsafe/libp2p-noise')
const { yamux } = await import('@chainsafe/libp2p-yamux')
const { tcp } = await import('@libp2p/tcp')
const { identify } = await import('@libp2p/identify')
const { gossipsub } = await import('@libp2p/gossipsub')
const { multiaddr } = await import('@multiformats/multiaddr')

const { values: flags } = parseArgs({
  options: {
    connect: { type: 'string', default: '' },
    topics: { type: 'string', default: '' },
    unsigned: { type: 'boolean', default: false },
    count: { type: 'boolean', default: false }
  }
})
const say = (event) => console.log(JSON.stringify(event))
const sha256 = (data) => createHash('sha256').update(data).digest()

const byContent = (message) => sha256(message.data)
const byAuthor = (message) => {
  const seqno = Buffer.alloc(8)
  seqno.writeBigUInt64BE(message.sequenceNumber)
  return Buffer.concat([message.from.toMultihash().bytes, seqno])
}

const node = await createLibp2p({
  addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
  transports: [tcp()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: {
    identify: identify(),
    pubsub: gossipsub({
      globalSignaturePolicy: flags.unsigned ? 'StrictNoSign' : 'StrictSign',
      msgIdFn: flags.unsigned ? byContent : byAuthor,
      allowPublishToZeroTopicPeers: true,
      floodPublish: false
    })
  }
})
const pubsub = node.services.pubsub
let received = 0
pubsub.addEventListener('message', ({ detail }) => {
  received++
  if (flags.count) {
    if (received % 100 === 0) say({ event: 'count', count: received })
    return
  }
  say({
    event: 'message',
    topic: detail.topic,
    size: detail.data.length,
    sha256: sha256(detail.data).toString('hex'),
    from: detail.from?.toString() ?? ''
  })
})
for (const topic of flags.topics.split(',').filter(Boolean)) pubsub.subscribe(topic)
say({ event: 'listening', address: node.getMultiaddrs()[0].toString() })
for (const address of flags.connect.split(',').filter(Boolean)) await node.dial(multiaddr(address))

let before = ''
setInterval(() => {
  const topics = Object.fromEntries(pubsub.getTopics().map((topic) => [topic, pubsub.getSubscribers(topic).length]))
  const mesh = Object.fromEntries(pubsub.getTopics().map((topic) => [topic, pubsub.getMeshPeers(topic).length]))
  const now = JSON.stringify([topics, mesh])
  if (now !== before) {
    before = now
    say({ event: 'peers', topics, mesh })
  }
}, 50)

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, topic, ...rest] = line.split(' ')
  if (verb === 'publish') {
    for (let i = 0; i < Number(rest[1]); i++) {
      const data = Buffer.alloc(Number(rest[0]))
      data.write(`${i} ${process.hrtime.bigint()} ${node.peerId} js`)
      await pubsub.publish(topic, data)
    }
  } else if (verb === 'say') {
    await pubsub.publish(topic, Buffer.from(rest.join(' ')))
  } else if (verb === 'leave') {
    pubsub.unsubscribe(topic)
  } else if (verb === 'join') {
    pubsub.subscribe(topic)
  } else if (verb === 'connect') {
    await node.dial(multiaddr(topic))
  }
}
await node.stop()
process.exit(0)
