#include "serve/select.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "serve/row_table.h"

namespace lithify::serve {
namespace {

// What a table was asked for.
struct Asked {
  std::vector<std::string> columns;
  std::string filter;
};

// Remembers what is asked of a table.
class WatchedTable final : public TableSource {
 public:
  explicit WatchedTable(std::shared_ptr<arrow::RecordBatch> batch) : batch_(std::move(batch)) {}

  Status GetSchema(ArrowSchema* out) override {
    EXPECT_TRUE(arrow::ExportSchema(*batch_->schema(), out).ok());
    return {};
  }
  Result<std::unique_ptr<TableStream>> Open(const TableRead& read) override {
    Asked one;
    for (const int column : read.columns) one.columns.push_back(batch_->schema()->field(column)->name());
    one.filter = read.filter;
    asked.push_back(one);
    if (fail) return Fail(*fail);
    return std::make_unique<Stream>(*this, batch_->SelectColumns(read.columns).ValueOrDie(),
                                    read.cancel);
  }

  std::vector<Asked> asked;
  std::optional<Error> fail;
  std::optional<Error> fail_late;  // After the first batch.
  bool endless = false;

 private:
  class Stream final : public TableStream {
   public:
    Stream(WatchedTable& table, std::shared_ptr<arrow::RecordBatch> batch, const CancelFlag* cancel)
        : table_(table), batch_(std::move(batch)), cancel_(cancel) {}
    Result<bool> Next(ArrowArray* out) override {
      LITHIFY_TRY(cancel_->Check());
      const int call = calls_++;
      if (call > 0 && table_.fail_late) return Fail(*table_.fail_late);
      if (call > 0 && !table_.endless) return false;
      EXPECT_TRUE(arrow::ExportRecordBatch(*batch_, out).ok());
      return true;
    }

   private:
    WatchedTable& table_;
    const std::shared_ptr<arrow::RecordBatch> batch_;
    const CancelFlag* cancel_;
    std::atomic<int> calls_{0};
  };

  const std::shared_ptr<arrow::RecordBatch> batch_;
};

class Tables final : public TableProvider {
 public:
  Result<std::shared_ptr<TableSource>> Find(const TableName& name) override {
    std::string text;
    for (const auto& part : name.parts) text += (text.empty() ? "" : "|") + part;
    if (!name.version.empty()) text += "@" + name.version;
    found.push_back(text);
    const auto at = tables.find(text);
    if (at == tables.end()) return nullptr;
    return at->second;
  }
  std::map<std::string, std::shared_ptr<TableSource>> tables;
  std::vector<std::string> found;
};

std::shared_ptr<arrow::RecordBatch> Orders(int64_t rows = 5) {
  arrow::Int64Builder id;
  arrow::Int32Builder number;
  arrow::StringBuilder region;
  arrow::Date32Builder day;
  arrow::DoubleBuilder total;
  auto price_type = arrow::decimal128(9, 2);
  arrow::Decimal128Builder price(price_type);
  auto when_type = arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
  arrow::TimestampBuilder when(when_type, arrow::default_memory_pool());
  arrow::BooleanBuilder paid;
  for (int64_t i = 0; i < rows; ++i) {
    EXPECT_TRUE(id.Append(i).ok() && number.Append(static_cast<int32_t>(i % 7)).ok() &&
                (i % 5 == 4 ? region.AppendNull() : region.Append(i % 2 == 0 ? "eu" : "us")).ok() &&
                day.Append(static_cast<int32_t>(20'000 + i % 3)).ok() &&
                total.Append(static_cast<double>(i) / 2).ok() &&
                price.Append(arrow::Decimal128(i * 25)).ok() &&
                when.Append(1'764'000'000'000'000 + i * 1'000'000).ok() &&
                paid.Append(i % 2 == 0).ok());
  }
  auto schema = arrow::schema(
      {arrow::field("id", arrow::int64()), arrow::field("number", arrow::int32()),
       arrow::field("region", arrow::utf8()), arrow::field("day", arrow::date32()),
       arrow::field("total", arrow::float64()), arrow::field("price", price_type),
       arrow::field("at", when_type), arrow::field("paid", arrow::boolean())});
  return arrow::RecordBatch::Make(
      schema, rows,
      {id.Finish().ValueOrDie(), number.Finish().ValueOrDie(), region.Finish().ValueOrDie(),
       day.Finish().ValueOrDie(), total.Finish().ValueOrDie(), price.Finish().ValueOrDie(),
       when.Finish().ValueOrDie(), paid.Finish().ValueOrDie()});
}

class SelectTest : public testing::Test {
 protected:
  SelectTest() {
    orders_ = std::make_shared<WatchedTable>(Orders());
    tables_.tables["sales|orders"] = orders_;
    tables_.tables["lake|sales|orders"] = orders_;
    limits_.memory_bytes = int64_t{64} << 20;
    limits_.threads = 2;
  }

  Result<std::unique_ptr<SelectResult>> Start(
      const std::string& sql, const std::shared_ptr<arrow::RecordBatch>& parameters = nullptr) {
    return engine_.Run(sql, parameters, tables_, limits_, cancel_);
  }

  // Rows as text, "1,eu;2,us"; or the error.
  std::string Run(const std::string& sql,
                  const std::shared_ptr<arrow::RecordBatch>& parameters = nullptr) {
    auto result = Start(sql, parameters);
    if (!result) return result.error().ToString();
    std::string text;
    while (true) {
      auto batch = (*result)->Next();
      if (!batch) return batch.error().ToString();
      if (*batch == nullptr) return text;
      EXPECT_TRUE((*batch)->ValidateFull().ok());
      for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
        if (!text.empty()) text += ";";
        for (int c = 0; c < (*batch)->num_columns(); ++c) {
          if (c > 0) text += ",";
          text += (*batch)->column(c)->GetScalar(row).ValueOrDie()->ToString();
        }
      }
    }
  }

  // What the table was asked for by the statement.
  Asked Pushed(const std::string& sql) {
    orders_->asked.clear();
    const auto rows = Run(sql);
    EXPECT_EQ(orders_->asked.size(), 1U) << sql << ": " << rows;
    return orders_->asked.empty() ? Asked{} : orders_->asked[0];
  }

  SelectEngine engine_;
  Tables tables_;
  std::shared_ptr<WatchedTable> orders_;
  SelectLimits limits_;
  CancelFlag cancel_;
};

TEST_F(SelectTest, DottedNames) {
  EXPECT_EQ(Run("SELECT id, region FROM sales.orders WHERE id < 2 ORDER BY id"), "0,eu;1,us");
  EXPECT_EQ(Run("SELECT lake.sales.orders.id FROM lake.sales.orders WHERE sales.orders.id = 3"), "3");
  EXPECT_EQ(Run("SELECT orders.id FROM \"sales\" . /* here */ \"orders\" LIMIT 1"), "0");
  EXPECT_EQ(Run("SELECT a.id + b.id FROM sales.orders a JOIN sales.orders b ON a.id = b.id + 3 "
                "ORDER BY 1"),
            "3;5");
  EXPECT_EQ(Run("SELECT count(*) FROM sales.orders, lake.sales.orders AS o2"), "25");
}

}  // namespace
}  // namespace lithify::serve
