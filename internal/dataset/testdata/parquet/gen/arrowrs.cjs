const arrow = require('apache-arrow'); const pw = require('parquet-wasm/node'); const fs = require('fs');
const N = 60; const idx = [...Array(N).keys()];
const list = new arrow.List(new arrow.Field('item', new arrow.Int32(), true));
const st = new arrow.Struct([new arrow.Field('a', new arrow.Int64(), false), new arrow.Field('names', new arrow.List(new arrow.Field('item', new arrow.Utf8(), true)), true)]);
const t = new arrow.Table({
  id: arrow.vectorFromArray(idx.map(i => BigInt(i) * 7n + 9007199254740993n), new arrow.Int64()),
  u32: arrow.vectorFromArray(idx.map(i => 4294967295 - i), new arrow.Uint32()),
  i8: arrow.vectorFromArray(idx.map(i => i - 30), new arrow.Int8()),
  f32: arrow.vectorFromArray(idx.map(i => i % 5 == 4 ? null : i / 3), new arrow.Float32()),
  f64: arrow.vectorFromArray(idx.map(i => i === 3 ? NaN : i * 1e20), new arrow.Float64()),
  dict: arrow.vectorFromArray(idx.map(i => ['red', 'green', null][i % 3]), new arrow.Dictionary(new arrow.Utf8(), new arrow.Int32())),
  text: arrow.vectorFromArray(idx.map(i => 'prefix-' + 'abc'.repeat(i % 4) + i), new arrow.Utf8()),
  bin: arrow.vectorFromArray(idx.map(i => Uint8Array.of(0, 255, i)), new arrow.Binary()),
  ms: arrow.vectorFromArray(idx.map(i => i * 86400000 - 1), new arrow.TimestampMillisecond('UTC')),
  day: arrow.vectorFromArray(idx.map(i => new Date(i * 86400000)), new arrow.DateDay()),
  list: arrow.vectorFromArray(idx.map(i => i % 4 == 0 ? null : Array.from({length: i % 4 - 1}, (_, k) => k == 1 ? null : i * k)), list),
  st: arrow.vectorFromArray(idx.map(i => i % 6 == 5 ? null : ({a: BigInt(i), names: i % 2 ? [] : ['n' + i, null]})), st),
});
const ipc = arrow.tableToIPC(t, 'stream');
const E = pw.Encoding, C = pw.Compression, V = pw.WriterVersion;
const variants = {
  v1_snappy_plain: b => b.setCompression(C.SNAPPY).setWriterVersion(V.V1).setDictionaryEnabled(false),
  v1_lz4raw_dict: b => b.setCompression(C.LZ4_RAW).setWriterVersion(V.V1),
  v2_zstd_delta: b => { b = b.setCompression(C.ZSTD).setWriterVersion(V.V2).setDictionaryEnabled(false);
     for (const c of ['id','u32','i8','ms','day']) b = b.setColumnEncoding(c, E.DELTA_BINARY_PACKED);
     for (const c of ['text']) b = b.setColumnEncoding(c, E.DELTA_BYTE_ARRAY);
     for (const c of ['bin','dict']) b = b.setColumnEncoding(c, E.DELTA_LENGTH_BYTE_ARRAY);
     for (const c of ['f32','f64']) b = b.setColumnEncoding(c, E.BYTE_STREAM_SPLIT ?? E.PLAIN); return b; },
  v2_gzip_groups: b => b.setCompression(C.GZIP).setWriterVersion(V.V2).setMaxRowGroupSize(7),
  v1_brotli: b => b.setCompression(C.BROTLI).setWriterVersion(V.V1).setMaxRowGroupSize(25),
  v2_none_smallpages: b => b.setCompression(C.UNCOMPRESSED).setWriterVersion(V.V2).setDataPageSizeLimit(64).setWriteBatchSize(4),
};
for (const [name, f] of Object.entries(variants)) {
  try {
    const props = f(new pw.WriterPropertiesBuilder()).build();
    fs.writeFileSync(`arrowrs_${name}.parquet`, pw.writeParquet(pw.Table.fromIPCStream(ipc), props));
  } catch (e) { console.log(name, e.message || e); }
}
