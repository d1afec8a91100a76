const { DuckDBInstance } = require('@duckdb/node-api');
(async () => {
  const db = await DuckDBInstance.create(':memory:'); const c = await db.connect();
  console.log((await (await c.run('select version()')).getRows()));
  const q = `select 'r' || i as id, i::bigint*1000003 + 9007199254740000 as big, (i%250-125)::tinyint as tiny, (18446744073709551615 - i)::ubigint as ubig,
   (i*1.25-3)::decimal(9,2) as dec9, (i*1.5-7)::decimal(38,10) as dec38, (i*0.1)::float as f, case when i%7=0 then null else i*0.1 end::double as d,
   i%2=0 as b, date '1969-12-25' + i::int as day, timestamp '1999-12-31 23:59:59.123456' + interval (i) hour as ts, 
   (timestamptz '2020-02-29 12:00:00.5+00' + interval (i) second) as tz, time '00:00:01.000005' + interval (i) second as tm,
   'é"\\n' || repeat('x', (i%5)::int) as s, encode('b' || i) as blob, case when i%3=0 then null when i%3=1 then [] else [i, null, -i] end as l,
   {'a': i, 'b': case when i%4=0 then null else ['x', 'y' || i] end} as st, map {'k1': i, 'k2': null} as m, [[1,i],[],null] as ll, uuid '12345678-1234-1234-1234-123456789abc' as u
   from range(${process.argv[2]||300}) t(i)`;
  for (const [name, opt] of [['snappy', "compression snappy"], ['zstd_v2', "compression zstd, parquet_version v2"], ['gzip', 'compression gzip, row_group_size 100'], ['none', 'compression uncompressed'], ['brotli', 'compression brotli, parquet_version v2'], ['lz4raw', 'compression lz4_raw']])
    await c.run(`copy (${q}) to 'duckdb_${name}.parquet' (format parquet, ${opt})`).catch(e=>console.log(name, e.message));
  await c.run(`copy (${q}) to 'duckdb.json' (format json)`);
})();
