import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {Spanner, fault, projectId, spent, state, until} from './clients.mjs';

const spanner = new Spanner({projectId});
const path = `projects/${projectId}/instances/node/databases/results`;
let database;

before(async () => {
  const [instance, made] = await spanner.createInstance('node', {config: 'emulator-config', nodes: 1, displayName: 'node'});
  await made.promise();
  const [created, operation] = await instance.createDatabase('results', {schema: [
    `CREATE TABLE Results (RunId STRING(64) NOT NULL, ItemId STRING(256) NOT NULL, Status STRING(8) NOT NULL, Output STRING(MAX),
       Millis FLOAT64, Bytes BYTES(MAX), CommittedAt TIMESTAMP OPTIONS (allow_commit_timestamp = true)) PRIMARY KEY (RunId, ItemId)`,
    'CREATE TABLE Counters (Name STRING(64) NOT NULL, Value INT64 NOT NULL) PRIMARY KEY (Name)',
  ]});
  await operation.promise();
  database = created;
});
after(() => database?.close());

const plain = rows => rows.map(row => row.toJSON());

test('insert, read and query', async () => {
  const results = database.table('Results');
  const row = (ItemId, Status) => ({
    RunId: 'r', ItemId, Status, Output: '{"label":7}', Millis: Spanner.float(0.5), Bytes: Buffer.from([0, 255]), CommittedAt: Spanner.COMMIT_TIMESTAMP,
  });
  await results.insert([row('a', 'OK'), row('b', 'OK'), row('ünï', 'FAILED')]);

  const [read] = await results.read({columns: ['ItemId', 'Output', 'Millis', 'Bytes'], keys: [['r', 'ünï'], ['r', 'missing']]});
  assert.deepEqual(plain(read), [{ItemId: 'ünï', Output: '{"label":7}', Millis: 0.5, Bytes: Buffer.from([0, 255])}]);
  const [range] = await results.read({columns: ['ItemId'], ranges: [{startClosed: ['r', 'b'], endOpen: ['s']}], limit: 1});
  assert.deepEqual(plain(range), [{ItemId: 'b'}]);

  const [counts] = await database.run({
    sql: 'SELECT Status, COUNT(*) AS n FROM Results WHERE RunId = @run GROUP BY Status ORDER BY Status', params: {run: 'r'},
  });
  assert.deepEqual(plain(counts), [{Status: 'FAILED', n: 1}, {Status: 'OK', n: 2}]);
  const [committed] = await database.run({sql: 'SELECT CommittedAt FROM Results WHERE ItemId = @item LIMIT 1', params: {item: 'a'}});
  assert.ok(Math.abs(committed[0].toJSON().CommittedAt - Date.now()) < 60_000);

  await results.update([{RunId: 'r', ItemId: 'a', Status: 'FAILED', Output: null}]);
  const [stale] = await database.run({sql: "SELECT Output FROM Results WHERE RunId = 'r' AND ItemId = 'a'"});
  assert.deepEqual(plain(stale), [{Output: null}]);
  await results.deleteRows([['r', 'ünï']]);
  const rows = await until('the state shows it', async () => {
    const {rows} = await state();
    const mine = rows.filter(group => group.database === path).map(({run_id, status, rows}) => [run_id, status, rows]);
    return mine.length === 2 && mine;
  });
  assert.deepEqual(rows, [['r', 'FAILED', 1], ['r', 'OK', 1]]);
});

test('many rows arrive in order', async () => {
  const results = database.table('Results');
  const items = Array.from({length: 3000}, (_, i) => String(i).padStart(5, '0'));
  await results.upsert(items.map(ItemId => ({RunId: 'many', ItemId, Status: 'OK', Output: 'x'.repeat(500)})));
  const [rows] = await database.run({sql: "SELECT ItemId FROM Results WHERE RunId = 'many' ORDER BY ItemId"});
  assert.deepEqual(rows.map(row => row.toJSON().ItemId), items);
});

// increment adds to a counter in a read-write transaction and returns how often it ran.
async function increment(name) {
  let runs = 0;
  await database.runTransactionAsync(async transaction => {
    runs++;
    const [rows] = await transaction.read('Counters', {columns: ['Value'], keys: [[name]]});
    transaction.update('Counters', {Name: name, Value: rows[0].toJSON().Value + 1});
    await transaction.commit();
  });
  return runs;
}

const value = async name => (await database.run({sql: 'SELECT Value FROM Counters WHERE Name = @name', params: {name}}))[0][0].toJSON().Value;

test('transactions that meet are run again, and none is lost', async () => {
  await database.table('Counters').insert({Name: 'meet', Value: 0});
  await Promise.all(Array.from({length: 10}, () => increment('meet')));
  assert.equal(await value('meet'), 10);
});

test('an aborted commit is retried by the client', async () => {
  await database.table('Counters').insert({Name: 'aborted', Value: 0});
  const start = Date.now();
  await fault({method: 'Commit', code: 'ABORTED', count: 2});
  assert.equal(await increment('aborted'), 3);
  assert.ok(Date.now() - start < 2000, 'the client was not told how long to wait, and waits for seconds');
  await spent();
  assert.equal(await value('aborted'), 1);
});

test('what the service refuses is refused with its codes', async () => {
  const counters = database.table('Counters');
  const start = Date.now();
  await counters.insert({Name: 'twice', Value: 1});
  await assert.rejects(counters.insert({Name: 'twice', Value: 1}), {code: 6});
  await assert.rejects(counters.update({Name: 'missing', Value: 1}), {code: 5});
  await assert.rejects(counters.insert({Name: 'null', Value: null}), {code: 9});
  await assert.rejects(counters.insert({Name: 'x'.repeat(65), Value: 1}), {code: 9});
  await assert.rejects(database.run('SELECT * FROM Nowhere'), {code: 3});
  await assert.rejects(database.run('SELEKT 1'), {code: 3});
  assert.ok(Date.now() - start < 5000, 'the client took errors for broken connections, and tried again');
});
