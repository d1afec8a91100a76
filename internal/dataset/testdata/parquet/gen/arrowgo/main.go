package main

import (
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String},
		{Name: "u64", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		{Name: "u8", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "f16", Type: arrow.FixedWidthTypes.Float16},
		{Name: "d128", Type: &arrow.Decimal128Type{Precision: 30, Scale: 4}},
		{Name: "d256", Type: &arrow.Decimal256Type{Precision: 60, Scale: 30}, Nullable: true},
		{Name: "ns", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}},
		{Name: "local_us", Type: &arrow.TimestampType{Unit: arrow.Microsecond}},
		{Name: "t_ms", Type: arrow.FixedWidthTypes.Time32ms},
		{Name: "t_ns", Type: arrow.FixedWidthTypes.Time64ns},
		{Name: "date", Type: arrow.FixedWidthTypes.Date32},
		{Name: "fixed", Type: &arrow.FixedSizeBinaryType{ByteWidth: 3}},
		{Name: "big", Type: arrow.BinaryTypes.LargeString, Nullable: true},
		{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int16)), Nullable: true},
		{Name: "mi", Type: arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Boolean)},
		{Name: "deep", Type: arrow.ListOf(arrow.StructOf(arrow.Field{Name: "k", Type: arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int64)), Nullable: true}, arrow.Field{Name: "v", Type: arrow.BinaryTypes.String, Nullable: true})), Nullable: true},
		{Name: "null", Type: arrow.Null, Nullable: true},
	}, nil)
	for name, opts := range map[string][]parquet.WriterProperty{
		"v1_snappy": {parquet.WithCompression(compress.Codecs.Snappy), parquet.WithVersion(parquet.V1_0), parquet.WithDataPageVersion(parquet.DataPageV1)},
		"v2_zstd":   {parquet.WithCompression(compress.Codecs.Zstd), parquet.WithVersion(parquet.V2_LATEST), parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithDictionaryDefault(false), parquet.WithDataPageSize(64)},
		"v24_gzip":  {parquet.WithCompression(compress.Codecs.Gzip), parquet.WithVersion(parquet.V2_4), parquet.WithMaxRowGroupLength(9)},
		"int96":     {parquet.WithCompression(compress.Codecs.Uncompressed), parquet.WithVersion(parquet.V1_0)},
	} {
		arrowOpts := []pqarrow.WriterOption{pqarrow.WithStoreSchema()}
		if name == "int96" {
			arrowOpts = []pqarrow.WriterOption{pqarrow.WithDeprecatedInt96Timestamps(true)}
		}
		f, err := os.Create("../arrowgo_" + name + ".parquet")
		must(err)
		w, err := pqarrow.NewFileWriter(schema, f, parquet.NewWriterProperties(opts...), pqarrow.NewArrowWriterProperties(arrowOpts...))
		must(err)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range 30 {
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("g%d", i))
			if i%4 == 3 {
				b.Field(1).AppendNull()
			} else {
				b.Field(1).(*array.Uint64Builder).Append(1<<64 - 1 - uint64(i))
			}
			b.Field(2).(*array.Uint8Builder).Append(uint8(255 - i))
			b.Field(3).(*array.Float16Builder).Append(float16.New(float32(i)/4 - 2))
			b.Field(4).(*array.Decimal128Builder).Append(decimal128.New(int64(i)-15, uint64(i)*12345))
			if i%5 == 0 {
				b.Field(5).AppendNull()
			} else {
				d, err := decimal256.FromString(fmt.Sprintf("-123456789012345678901234567.00000000%d1", i), 60, 30)
				must(err)
				b.Field(5).(*array.Decimal256Builder).Append(d)
			}
			b.Field(6).(*array.TimestampBuilder).Append(arrow.Timestamp(-1 + int64(i)*1_000_000_007))
			b.Field(7).(*array.TimestampBuilder).Append(arrow.Timestamp(int64(i-15) * 10_000_000_000_000_001))
			b.Field(8).(*array.Time32Builder).Append(arrow.Time32(86_399_999 - i))
			b.Field(9).(*array.Time64Builder).Append(arrow.Time64(86_399_999_999_999 - int64(i)))
			b.Field(10).(*array.Date32Builder).Append(arrow.Date32(-719_162 + i*100_000))
			b.Field(11).(*array.FixedSizeBinaryBuilder).Append([]byte{byte(i), 0, 255})
			if i%2 == 0 {
				b.Field(12).(*array.LargeStringBuilder).Append(fmt.Sprintf("<é&\x01%d>", i))
			} else {
				b.Field(12).AppendNull()
			}
			m := b.Field(13).(*array.MapBuilder)
			if i%3 == 0 {
				m.AppendNull()
			} else {
				m.Append(true)
				for k := range i%3 - 1 + i%2 {
					m.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprintf("k\"%d", k))
					l := m.ItemBuilder().(*array.ListBuilder)
					l.Append(true)
					for v := range k + i%2 {
						l.ValueBuilder().(*array.Int16Builder).Append(int16(-v))
					}
				}
			}
			mi := b.Field(14).(*array.MapBuilder)
			mi.Append(true)
			mi.KeyBuilder().(*array.Int32Builder).Append(int32(i))
			mi.ItemBuilder().(*array.BooleanBuilder).Append(i%2 == 0)
			deep := b.Field(15).(*array.ListBuilder)
			if i%6 == 5 {
				deep.AppendNull()
			} else {
				deep.Append(true)
				for k := range i % 3 {
					s := deep.ValueBuilder().(*array.StructBuilder)
					s.Append(true)
					o := s.FieldBuilder(0).(*array.ListBuilder)
					if k == 1 {
						o.AppendNull()
						s.FieldBuilder(1).AppendNull()
						continue
					}
					o.Append(true)
					for x := range i % 4 {
						in := o.ValueBuilder().(*array.ListBuilder)
						if x == 2 {
							in.AppendNull()
							continue
						}
						in.Append(true)
						for y := range x {
							in.ValueBuilder().(*array.Int64Builder).Append(int64(i * y))
						}
					}
					s.FieldBuilder(1).(*array.StringBuilder).Append("v")
				}
			}
			b.Field(16).AppendNull()
		}
		rec := b.NewRecordBatch()
		must(w.Write(rec))
		must(w.Close())
		if name == "v1_snappy" {
			js, err := rec.MarshalJSON()
			must(err)
			must(os.WriteFile("../arrowgo.json", js, 0o644))
		}
	}
}
