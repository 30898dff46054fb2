package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// The snapshot that all manifests are of, an older one, and the sequence numbers of both.
const (
	newSnapshot, oldSnapshot = 77, 66
	newSequence, oldSequence = 9, 5
	specID                   = 3
	firstPartitionField      = 1000
)

// A partition field over each type, and each transform; with the value that it has in most entries.
// One decimal and one fixed only: iceberg-go gives the Avro types of two decimals the same name.
type partitionField struct {
	name      string
	kind      iceberg.Type
	transform iceberg.Transform
	value     any
	version   int // The first format version that has it.
}

func decimalOf(unscaled int64, scale int) iceberg.Decimal {
	return iceberg.Decimal{Val: decimal128.FromI64(unscaled), Scale: scale}
}

func partitionFields(version int) []partitionField {
	types := iceberg.PrimitiveTypes
	identity := iceberg.IdentityTransform{}
	all := []partitionField{
		{"region", types.String, identity, "eu", 1},
		{"id", types.Int64, identity, int64(-5000000000), 1},
		{"count", types.Int32, identity, int32(-7), 1},
		{"ok", types.Bool, identity, true, 1},
		{"ratio", types.Float32, identity, float32(-0.5), 1},
		{"score", types.Float64, identity, math.NaN(), 1},
		{"price", iceberg.DecimalTypeOf(9, 2), identity, decimalOf(-1420, 2), 1},
		{"day", types.Date, identity, iceberg.Date(17486), 1},
		{"at", types.Time, identity, iceberg.Time(81068000001), 1},
		{"naive", types.Timestamp, identity, iceberg.Timestamp(-1), 1},
		{"ts", types.TimestampTz, identity, iceberg.Timestamp(1510871468000001), 1},
		{"key", types.UUID, identity,
			uuid.MustParse("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1},
		{"code", iceberg.FixedTypeOf(3), identity, []byte{0, 255, 7}, 1},
		{"blob", types.Binary, identity, []byte{}, 1},
		{"region_bucket", types.String, iceberg.BucketTransform{NumBuckets: 16}, int32(11), 1},
		{"region_start", types.String, iceberg.TruncateTransform{Width: 1}, "e", 1},
		{"ts_year", types.TimestampTz, iceberg.YearTransform{}, int32(47), 1},
		{"ts_month", types.TimestampTz, iceberg.MonthTransform{}, int32(574), 1},
		{"ts_day", types.TimestampTz, iceberg.DayTransform{}, iceberg.Date(17486), 1},
		{"ts_hour", types.TimestampTz, iceberg.HourTransform{}, int32(419686), 1},
		{"nothing", types.Int64, iceberg.VoidTransform{}, nil, 1},
		{"nanos", types.TimestampNs, identity, iceberg.TimestampNano(-1), 3},
	}
	var fields []partitionField
	for _, field := range all {
		if field.version <= version {
			fields = append(fields, field)
		}
	}
	return fields
}

// Column i + 1 is the source of partition field 1000 + i.
func specOf(fields []partitionField) (*iceberg.Schema, iceberg.PartitionSpec) {
	var columns []iceberg.NestedField
	var parts []iceberg.PartitionField
	for i, field := range fields {
		columns = append(columns, iceberg.NestedField{ID: i + 1, Name: field.name, Type: field.kind})
		parts = append(parts, iceberg.PartitionField{SourceIDs: []int{i + 1},
			FieldID: firstPartitionField + i, Name: field.name, Transform: field.transform})
	}
	return iceberg.NewSchema(0, columns...), iceberg.NewPartitionSpecID(specID, parts...)
}

func partitionOf(fields []partitionField, null bool) map[int]any {
	values := map[int]any{}
	for i, field := range fields {
		values[firstPartitionField+i] = field.value
		if null {
			values[firstPartitionField+i] = nil
		}
	}
	return values
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func bound(value iceberg.Literal) []byte {
	bytes, err := value.MarshalBinary()
	check(err)
	return bytes
}

// A file with everything that a manifest may say of it.
func fileOf(spec iceberg.PartitionSpec, content iceberg.ManifestEntryContent,
	format iceberg.FileFormat, number int, partition map[int]any) *iceberg.DataFileBuilder {
	path := fmt.Sprintf("s3://bucket/t/data/0000%d.%s", number, format)
	file, err := iceberg.NewDataFileBuilder(spec, content, path, format, partition, nil, nil,
		int64(100+number), int64(10000+number))
	check(err)
	return file
}

func measured(file *iceberg.DataFileBuilder, number int) *iceberg.DataFileBuilder {
	count := int64(100 + number)
	return file.ColumnSizes(map[int]int64{1: 400, 2: 500 + int64(number)}).
		ValueCounts(map[int]int64{1: count, 2: count, 6: count}).
		NullValueCounts(map[int]int64{1: int64(number), 2: 0}).
		NaNValueCounts(map[int]int64{6: 1}).
		LowerBoundValues(map[int][]byte{1: []byte("eu"), 2: bound(iceberg.Int64Literal(-number))}).
		UpperBoundValues(map[int][]byte{1: []byte("ev"), 2: bound(iceberg.Int64Literal(number))}).
		SplitOffsets([]int64{4, 5000}).
		SortOrderID(1)
}

// What one manifest is made of.
type manifest struct {
	name    string
	version int
	content iceberg.ManifestContent
	spec    iceberg.PartitionSpec
	schema  *iceberg.Schema
	entries []iceberg.ManifestEntry
}

func (m *manifest) entry(status iceberg.ManifestEntryStatus, file *iceberg.DataFileBuilder) {
	snapshot, sequence, fileSequence := int64(oldSnapshot), int64(oldSequence), int64(oldSequence-1)
	if status == iceberg.EntryStatusADDED {
		m.entries = append(m.entries,
			iceberg.NewManifestEntry(status, nil, nil, nil, file.Build()))
		return
	}
	m.entries = append(m.entries,
		iceberg.NewManifestEntry(status, &snapshot, &sequence, &fileSequence, file.Build()))
}

func (m *manifest) write(directory string) iceberg.ManifestFile {
	var out bytes.Buffer
	writer, err := iceberg.NewManifestWriter(m.version, &out, m.spec, m.schema, newSnapshot,
		iceberg.WithManifestWriterContent(m.content))
	check(err)
	for _, entry := range m.entries {
		switch entry.Status() {
		case iceberg.EntryStatusADDED:
			check(writer.Add(entry))
		case iceberg.EntryStatusEXISTING:
			check(writer.Existing(entry))
		default:
			check(writer.Delete(entry))
		}
	}
	check(writer.Close())
	check(os.WriteFile(filepath.Join(directory, m.name), out.Bytes(), 0o644))
	file, err := writer.ToManifestFile("s3://bucket/t/metadata/"+m.name, int64(out.Len()))
	check(err)
	return file
}

// Added, added without any partition value or metric, kept and removed files.
func dataManifest(version int) *manifest {
	fields := partitionFields(version)
	schema, spec := specOf(fields)
	m := &manifest{fmt.Sprintf("v%d-data.avro", version), version, iceberg.ManifestContentData, spec,
		schema, nil}
	file := func(number int, null bool) *iceberg.DataFileBuilder {
		return fileOf(spec, iceberg.EntryContentData, iceberg.ParquetFile, number,
			partitionOf(fields, null))
	}
	m.entry(iceberg.EntryStatusADDED, measured(file(0, false), 0).KeyMetadata([]byte("\x00key")))
	m.entry(iceberg.EntryStatusADDED, file(1, true))
	existing := measured(file(2, false), 2)
	if version == 3 {
		existing.FirstRowID(4000)
	}
	m.entry(iceberg.EntryStatusEXISTING, existing)
	m.entry(iceberg.EntryStatusDELETED, measured(file(3, false), 3))
	m.entry(iceberg.EntryStatusADDED, measured(file(4, true), 4))
	return m
}

func deleteManifest(version int) *manifest {
	fields := partitionFields(version)
	schema, spec := specOf(fields)
	m := &manifest{fmt.Sprintf("v%d-deletes.avro", version), version,
		iceberg.ManifestContentDeletes, spec, schema, nil}
	partition := partitionOf(fields, false)
	const referenced = "s3://bucket/t/data/00000.PARQUET"
	paths := map[int][]byte{2147483546: []byte(referenced)}
	positions := fileOf(spec, iceberg.EntryContentPosDeletes, iceberg.ParquetFile, 5, partition).
		LowerBoundValues(paths).UpperBoundValues(paths)
	m.entry(iceberg.EntryStatusADDED, positions.ReferencedDataFile(referenced))
	m.entry(iceberg.EntryStatusEXISTING,
		measured(fileOf(spec, iceberg.EntryContentEqDeletes, iceberg.ParquetFile, 6, partition), 6).
			EqualityFieldIDs([]int{2, 1}))
	if version == 3 {
		m.entry(iceberg.EntryStatusADDED,
			fileOf(spec, iceberg.EntryContentPosDeletes, iceberg.PuffinFile, 7, partition).
				ReferencedDataFile(referenced).ContentOffset(4).ContentSizeInBytes(44))
	}
	return m
}

// Manifests of every version, data and deletes, and the lists that name them.
func writeManifests(directory string) error {
	for version := 1; version <= 3; version++ {
		files := []iceberg.ManifestFile{dataManifest(version).write(directory)}
		if version > 1 {
			files = append(files, deleteManifest(version).write(directory))
		}
		files = append(files, iceberg.NewManifestFile(version, "s3://bucket/t/metadata/old.avro", 4321,
			specID, oldSnapshot).KeyMetadata([]byte("\xFFkey")).SequenceNum(oldSequence, oldSequence-1).
			AddedFiles(1).ExistingFiles(2).DeletedFiles(3).AddedRows(10).ExistingRows(20).
			DeletedRows(30).Build())
		out, err := os.Create(filepath.Join(directory, fmt.Sprintf("v%d-list.avro", version)))
		if err != nil {
			return err
		}
		parent, sequence := int64(oldSnapshot), int64(newSequence)
		err = iceberg.WriteManifestList(version, out, newSnapshot, &parent, &sequence, 1000, files)
		if err != nil {
			return err
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
	return nil
}
