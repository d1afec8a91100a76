// What the tests share: the official clients, which lie in a folder of their own, and localcloud's admin API.
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';

const require = createRequire(process.env.SPOTBATCH_TEST_NODE_CLIENTS + '/');
export const {PubSub, v1: pubsubV1} = require('@google-cloud/pubsub');
export const {Spanner} = require('@google-cloud/spanner');

export const projectId = 'demo';
const grpc = require('@grpc/grpc-js');
const admin = 'http://' + process.env.LOCALCLOUD_ADMIN_HOST;

export async function fault(rule) {
  const response = await fetch(admin + '/faults', {method: 'POST', body: JSON.stringify(rule)});
  assert.equal(response.status, 201, await response.text());
}

// spent waits for nothing: a fault with a count is gone once it has struck so often.
export async function spent() {
  const {faults} = await (await fetch(admin + '/faults')).json();
  assert.deepEqual(faults, []);
}

export async function state(query = '') {
  const response = await fetch(admin + '/state' + query);
  assert.equal(response.status, 200);
  return response.json();
}

// until polls a condition.
export async function until(what, condition) {
  const end = Date.now() + 20_000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `gave up on: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

// direct are the options of a generated client, which does not read PUBSUB_EMULATOR_HOST.
export function direct() {
  const [servicePath, port] = process.env.PUBSUB_EMULATOR_HOST.split(':');
  return {projectId, servicePath, port: Number(port), sslCreds: grpc.credentials.createInsecure()};
}
