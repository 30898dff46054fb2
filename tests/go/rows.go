package main

import (
	"io"
	"iter"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// All rows of a file of Arrow's IPC format.
func readRows(path string) (arrow.Table, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader, err := ipc.NewFileReader(file)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var batches []arrow.RecordBatch
	for {
		batch, err := reader.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		batch.Retain()
		batches = append(batches, batch)
	}
	return array.NewTableFromRecords(reader.Schema(), batches), nil
}

func batchesOf(rows arrow.Table) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		reader := array.NewTableReader(rows, rows.NumRows())
		defer reader.Release()
		for reader.Next() {
			batch := reader.RecordBatch()
			batch.Retain()
			if !yield(batch, nil) {
				return
			}
		}
	}
}

func writeRows(path string, schema *arrow.Schema, batches iter.Seq2[arrow.RecordBatch, error]) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	writer, err := ipc.NewFileWriter(file, ipc.WithSchema(schema))
	if err != nil {
		return err
	}
	for batch, err := range batches {
		if err != nil {
			return err
		}
		err = writer.Write(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return writer.Close()
}
