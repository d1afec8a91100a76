import assert from 'node:assert/strict';
import {after, test} from 'node:test';
import {PubSub, direct, fault, projectId, pubsubV1, spent, state, until} from './clients.mjs';

const pubsub = new PubSub({projectId});
const subscriber = new pubsubV1.SubscriberClient(direct());
after(() => Promise.all([pubsub.close(), subscriber.close()]));

// setup makes a topic and a subscription for one test.
async function setup(name, options = {}) {
  const [topic] = await pubsub.createTopic(name);
  const [subscription] = await topic.createSubscription(name, options);
  return {topic, subscription, full: `projects/${projectId}/subscriptions/${name}`};
}

// receive passes messages to handle until it returns true.
function receive(subscription, handle) {
  return new Promise((resolve, reject) => {
    const done = (settle, value) => subscription.close().then(() => settle(value), reject);
    subscription.on('error', error => done(reject, error));
    subscription.on('message', message => {
      Promise.resolve(handle(message)).then(enough => enough && done(resolve), error => done(reject, error));
    });
  });
}

test('publish, receive and ack', async () => {
  const {topic, subscription, full} = await setup('node-receive');
  const sent = new Map();
  await Promise.all(Array.from({length: 500}, async (_, i) => {
    const item = `item/${i} é`;
    sent.set(item, i);
    await topic.publishMessage({data: Buffer.from([0, 255, i % 256]), attributes: {run_id: 'node', item_id: item}});
  }));
  const seen = new Set();
  await receive(subscription, message => {
    const item = message.attributes.item_id;
    assert.deepEqual([...message.data], [0, 255, sent.get(item) % 256]);
    seen.add(item);
    message.ack();
    return seen.size === sent.size;
  });
  const counts = await until('all are acked', async () => {
    const [s] = (await state('?subscription=' + full)).subscriptions;
    return s.acked === sent.size && s;
  });
  assert.equal(counts.ready + counts.leased, 0);
  const {item} = await state('?item_id=' + encodeURIComponent('item/7 é'));
  assert.deepEqual(item.messages[0].subscriptions[0].events.map(e => e.event).filter(e => e !== 'extended'), ['published', 'delivered', 'acked']);
});

test('nack brings a message back with a higher attempt, and then to the dead letters', async () => {
  const [dead] = await pubsub.createTopic('node-dead');
  const [letters] = await dead.createSubscription('node-dead');
  const {topic, subscription} = await setup('node-nack', {deadLetterPolicy: {deadLetterTopic: dead.name, maxDeliveryAttempts: 5}});
  await topic.publishMessage({data: Buffer.from('poison')});
  const attempts = [];
  await receive(subscription, message => {
    attempts.push(message.deliveryAttempt);
    message.nack();
    return attempts.length === 5;
  });
  assert.deepEqual(attempts, [1, 2, 3, 4, 5]);
  await receive(letters, message => {
    assert.equal(message.data.toString(), 'poison');
    assert.equal(message.attributes.CloudPubSubDeadLetterSourceSubscription, 'node-nack');
    message.ack();
    return true;
  });
});

test('a lease that runs out brings a message back, and its old ack ID does nothing', async () => {
  const {topic, full: subscription} = await setup('node-lease');
  await topic.publishMessage({data: Buffer.from('x')});
  const pull = async () => (await subscriber.pull({subscription, maxMessages: 1}))[0].receivedMessages;
  const [first] = await pull();
  await subscriber.modifyAckDeadline({subscription, ackIds: [first.ackId], ackDeadlineSeconds: 1});
  const [second] = await until('it is redelivered', async () => {
    const messages = await pull();
    return messages.length > 0 && messages;
  });
  assert.equal(second.message.messageId, first.message.messageId);
  assert.notEqual(second.ackId, first.ackId);
  await subscriber.acknowledge({subscription, ackIds: [first.ackId]});
  assert.equal((await state('?subscription=' + subscription)).subscriptions[0].leased, 1);
  await subscriber.acknowledge({subscription, ackIds: [second.ackId]});
  assert.equal((await state('?subscription=' + subscription)).subscriptions[0].acked, 1);
});

test('exactly-once: an ack tells that it took', async () => {
  const {topic, subscription} = await setup('node-exactly-once', {enableExactlyOnceDelivery: true});
  await topic.publishMessage({data: Buffer.from('x')});
  const results = [];
  await receive(subscription, async message => {
    results.push(await message.ackWithResponse());
    return true;
  });
  assert.deepEqual(results, ['SUCCESS']);
});

test('flow control: one message at a time', async () => {
  const {topic, subscription} = await setup('node-flow');
  for (let i = 0; i < 5; i++) await topic.publishMessage({data: Buffer.from(String(i))});
  subscription.setOptions({flowControl: {maxMessages: 1, allowExcessMessages: false}});
  let held = 0, most = 0, total = 0;
  await receive(subscription, async message => {
    most = Math.max(most, ++held);
    await new Promise(resolve => setTimeout(resolve, 20));
    held--;
    message.ack();
    return ++total === 5;
  });
  assert.equal(most, 1);
});

test('faults: the client repeats what failed', async () => {
  const {topic, subscription} = await setup('node-faults');
  await fault({service: 'Publisher', method: 'Publish', code: 'UNAVAILABLE', count: 2});
  await fault({service: 'Subscriber', method: 'StreamingPull', close: true, count: 1});
  await topic.publishMessage({data: Buffer.from('x')});
  await receive(subscription, message => {
    message.ack();
    return true;
  });
  await spent();
});

test('what the service refuses is refused with its codes', async () => {
  const {topic} = await setup('node-limits');
  const invalid = {code: 3};
  await assert.rejects(topic.publishMessage({data: Buffer.alloc(0)}), invalid);
  await assert.rejects(topic.publishMessage({data: Buffer.from('x'), attributes: Object.fromEntries(Array.from({length: 101}, (_, i) => [`k${i}`, 'v']))}), invalid);
  await assert.rejects(topic.publishMessage({data: Buffer.from('x'), attributes: {['k'.repeat(257)]: 'v'}}), invalid);
  await assert.rejects(pubsub.createTopic('node-limits'), {code: 6});
  await assert.rejects(pubsub.topic('node-missing').publishMessage({data: Buffer.from('x')}), {code: 5});
});
