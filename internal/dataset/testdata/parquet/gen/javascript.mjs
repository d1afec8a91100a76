import parquet from '@dsnp/parquetjs';
import { parquetWriteBuffer } from 'hyparquet-writer';
import fs from 'fs';
const schema = new parquet.ParquetSchema({
  id: { type: 'UTF8' }, n: { type: 'INT64', optional: true }, price: { type: 'DOUBLE', compression: 'SNAPPY' }, when: { type: 'TIMESTAMP_MILLIS' }, day: {type:'DATE'}, j: {type:'JSON'}, raw: {type:'BYTE_ARRAY'},
  tags: { type: 'UTF8', repeated: true }, ok: {type:'BOOLEAN', compression:'GZIP'},
  stock: { repeated: true, fields: { warehouse: { type: 'UTF8', compression: 'BROTLI' }, qty: { repeated: true, type: 'INT32' } } },
});
const w = await parquet.ParquetWriter.openFile(schema, 'parquetjs.parquet');
w.setRowGroupSize(5);
for (let i = 0; i < 17; i++) await w.appendRow({ id: 'p' + i, n: i % 3 ? i : undefined, price: i / 8, when: new Date(1e12 + i), day: new Date(i * 86400000), j: {i, a: [i]}, raw: Buffer.from([i, 255]), tags: i % 4 ? Array.from({length: i % 4}, (_, k) => 't' + k) : [], ok: i % 2 == 0,
  stock: i % 5 ? [{ warehouse: 'A' + i, qty: [i, i + 1] }, { warehouse: 'B', qty: [] }] : [] });
await w.close();
fs.writeFileSync('hyparquet.parquet', Buffer.from(parquetWriteBuffer({ columnData: [
  { name: 'id', data: Array.from({length: 20}, (_, i) => 'h' + i), type: 'STRING' },
  { name: 'n', data: Array.from({length: 20}, (_, i) => BigInt(i) * 1000000007n), type: 'INT64' },
  { name: 'x', data: Array.from({length: 20}, (_, i) => i % 6 == 5 ? null : i / 10), type: 'DOUBLE' },
  { name: 'b', data: Array.from({length: 20}, (_, i) => i % 3 == 0), type: 'BOOLEAN' },
  { name: 't', data: Array.from({length: 20}, (_, i) => new Date(1e12 + i)), type: 'TIMESTAMP' },
  { name: 'o', data: Array.from({length: 20}, (_, i) => ({ i, s: 'x' })), type: 'JSON' },
]})));
