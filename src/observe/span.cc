// Apart from what sends: an embedding process has spans, and links no HTTP client.
#include <algorithm>
#include <utility>

#include "observe/telemetry.h"

namespace lithify::observe {

Span::Span(Telemetry* telemetry, std::string name, const TraceContext& parent, SpanData::Kind kind)
    : telemetry_(telemetry) {
  data_.context = parent;
  if (telemetry_ == nullptr) return;
  data_.context = telemetry_->MakeContext(parent);
  data_.parent_span_id = parent.span_id;
  data_.name = std::move(name);
  data_.kind = kind;
  data_.start = telemetry_->Now();
}

Span::~Span() {
  if (telemetry_ == nullptr) return;
  data_.end = std::max(data_.start, telemetry_->Now());
  telemetry_->Emit(std::move(data_));
}

void Span::Set(std::string key, AttributeValue value) {
  if (telemetry_ != nullptr) data_.attributes.emplace_back(std::move(key), std::move(value));
}

void Span::Fail(const Error& error) {
  if (telemetry_ == nullptr) return;
  data_.failed = true;
  data_.error = error.ToString();
  Set(attribute::kErrorType, std::string(CodeName(error.code)));
}

}  // namespace lithify::observe
