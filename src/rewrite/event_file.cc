#include "rewrite/event_file.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <parquet/column_writer.h>
#include <parquet/file_writer.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <memory>

#include "rewrite/arrow_io.h"
#include "rewrite/footer.h"

namespace lithify::rewrite {
namespace {

using parquet::LogicalType;
using parquet::Repetition;
using parquet::Type;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;
using parquet::schema::PrimitiveNode;

constexpr int32_t kCompactionKind = 3;

NodePtr Text(const char* name, Repetition::type repetition) {
  return PrimitiveNode::Make(name, repetition, LogicalType::String(), Type::BYTE_ARRAY);
}

NodePtr TextList(const char* name) {
  return GroupNode::Make(
      name, Repetition::OPTIONAL,
      {GroupNode::Make("list", Repetition::REPEATED, {Text("element", Repetition::OPTIONAL)})},
      LogicalType::List());
}

NodePtr Unsigned(const char* name) {
  return PrimitiveNode::Make(name, Repetition::OPTIONAL, LogicalType::Int(64, false), Type::INT64);
}

std::shared_ptr<GroupNode> EventSchema() {
  const auto nanos = LogicalType::Timestamp(true, LogicalType::TimeUnit::NANOS);
  return std::static_pointer_cast<GroupNode>(GroupNode::Make(
      "schema", Repetition::REQUIRED,
      {Text("tenant_id", Repetition::REQUIRED),
       PrimitiveNode::Make("timestamp", Repetition::REQUIRED, nanos, Type::INT64),
       PrimitiveNode::Make("event_kind", Repetition::REQUIRED, LogicalType::Int(8, false),
                           Type::INT32),
       Text("event_type", Repetition::REQUIRED), Text("reason", Repetition::OPTIONAL),
       Text("compaction_partition", Repetition::OPTIONAL), TextList("compaction_input_files"),
       Text("compaction_output_file", Repetition::OPTIONAL), TextList("compaction_output_files"),
       Unsigned("compaction_generation"), Unsigned("compaction_rows")}));
}

parquet::ByteArray Bytes(const std::string& text) {
  return parquet::ByteArray(static_cast<uint32_t>(text.size()),
                            reinterpret_cast<const uint8_t*>(text.data()));
}

// Writes one column after the other of a row group.
class EventColumns {
 public:
  explicit EventColumns(parquet::RowGroupWriter& group) : group_(group) {}

  // `value` returns a pointer to the text, or null.
  template <typename Get>
  void PutText(std::span<const CompactionEvent> events, Get value) {
    auto* writer = static_cast<parquet::ByteArrayWriter*>(group_.NextColumn());
    for (const CompactionEvent& event : events) {
      const std::string* text = value(event);
      const int16_t definition = text == nullptr ? 0 : 1;
      const parquet::ByteArray bytes = text == nullptr ? parquet::ByteArray() : Bytes(*text);
      writer->WriteBatch(1, &definition, nullptr, &bytes);
    }
    writer->Close();
  }

  template <typename Get>
  void PutTexts(std::span<const CompactionEvent> events, Get value) {
    auto* writer = static_cast<parquet::ByteArrayWriter*>(group_.NextColumn());
    for (const CompactionEvent& event : events) {
      const std::vector<std::string>& texts = value(event);
      int16_t definition = texts.empty() ? 1 : 3;
      int16_t repetition = 0;
      if (texts.empty()) writer->WriteBatch(1, &definition, &repetition, nullptr);
      for (const std::string& text : texts) {
        const parquet::ByteArray bytes = Bytes(text);
        writer->WriteBatch(1, &definition, &repetition, &bytes);
        repetition = 1;
      }
    }
    writer->Close();
  }

  template <typename Writer, typename Get>
  void PutNumber(std::span<const CompactionEvent> events, Get value) {
    auto* writer = static_cast<Writer*>(group_.NextColumn());
    for (const CompactionEvent& event : events) {
      const int16_t definition = 1;
      const auto number = value(event);
      writer->WriteBatch(1, &definition, nullptr, &number);
    }
    writer->Close();
  }

 private:
  parquet::RowGroupWriter& group_;
};

void WriteEvents(parquet::RowGroupWriter& group, std::span<const CompactionEvent> events) {
  using Event = CompactionEvent;
  static const std::string kType = "compaction";
  EventColumns columns(group);
  columns.PutText(events, [](const Event& e) { return &e.tenant_id; });
  columns.PutNumber<parquet::Int64Writer>(events, [](const Event& e) -> int64_t {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(e.timestamp.time_since_epoch())
        .count();
  });
  columns.PutNumber<parquet::Int32Writer>(events, [](const Event&) { return kCompactionKind; });
  columns.PutText(events, [](const Event&) { return &kType; });
  columns.PutText(events, [](const Event&) -> const std::string* { return nullptr; });
  columns.PutText(events, [](const Event& e) { return &e.partition; });
  columns.PutTexts(events, [](const Event& e) -> auto& { return e.input_files; });
  columns.PutText(events, [](const Event& e) {
    return e.output_files.empty() ? nullptr : &e.output_files.front();
  });
  columns.PutTexts(events, [](const Event& e) -> auto& { return e.output_files; });
  columns.PutNumber<parquet::Int64Writer>(
      events, [](const Event& e) { return static_cast<int64_t>(e.generation); });
  columns.PutNumber<parquet::Int64Writer>(
      events, [](const Event& e) { return static_cast<int64_t>(e.rows); });
}

}  // namespace

Result<std::string> EncodeCompactionEvents(std::span<const CompactionEvent> events) {
  return GuardParquet("compaction events", [&]() -> Result<std::string> {
    LITHIFY_CHECK(!events.empty(), "an event file without events");
    auto sink = arrow::io::BufferOutputStream::Create();
    if (!sink.ok()) return Fail(FromArrow(sink.status()));
    const auto properties = parquet::WriterProperties::Builder()
                                .compression(arrow::Compression::ZSTD)
                                ->created_by(std::string(kCreatedBy))
                                ->build();
    auto writer = parquet::ParquetFileWriter::Open(*sink, EventSchema(), properties);
    auto* group = writer->AppendRowGroup();
    WriteEvents(*group, events);
    group->Close();
    writer->Close();
    auto buffer = (*sink)->Finish();
    if (!buffer.ok()) return Fail(FromArrow(buffer.status()));
    return (*buffer)->ToString();
  });
}

}  // namespace lithify::rewrite
