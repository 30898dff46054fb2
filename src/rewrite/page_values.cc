#include "rewrite/page_values.h"

#include <cstring>
#include <vector>

namespace lithify::rewrite {
namespace {

// Byte b of value i is at b * count + i.
void SplitStreams(std::span<const uint8_t> plain, size_t count, size_t width, std::string* out) {
  for (size_t b = 0; b < width; ++b) {
    for (size_t i = 0; i < count; ++i) out->push_back(static_cast<char>(plain[i * width + b]));
  }
}

void JoinStreams(std::span<const uint8_t> streams, size_t count, size_t width, std::string* out) {
  for (size_t i = 0; i < count; ++i) {
    for (size_t b = 0; b < width; ++b) out->push_back(static_cast<char>(streams[b * count + i]));
  }
}

// Booleans as runs, with their length in front, to bits.
Status BitsOfRuns(std::span<const uint8_t> values, int64_t count, std::string* out) {
  uint32_t length = 0;
  if (values.size() < sizeof length) return ValuesCutOff();
  std::memcpy(&length, values.data(), sizeof length);
  if (length > values.size() - sizeof length) return ValuesCutOff();
  std::vector<uint32_t> bits(static_cast<size_t>(count));
  LITHIFY_TRY(DecodeHybrid(values.subspan(sizeof length, length), 1, count, 2, bits.data()));
  out->assign(static_cast<size_t>((count + 7) / 8), '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    (*out)[i / 8] = static_cast<char>(static_cast<uint8_t>((*out)[i / 8]) | bits[i] << (i % 8));
  }
  return {};
}

}  // namespace

Result<UnpackedPage> UnpackPage(const RawPage& page, const LevelShape& shape, PageCodec& codec,
                                std::string* buffer) {
  const PageHeader& header = page.header;
  UnpackedPage out;
  buffer->clear();
  if (header.type == PageType::kData) {
    std::span<const uint8_t> body = page.body;
    if (page.packed) {
      LITHIFY_TRY(codec.Decompress(page.body, header.uncompressed_page_size, buffer));
      body = BytesOf(*buffer);
    }
    LITHIFY_TRY_ASSIGN(out.parts, TakeApart(header, body, shape));
    out.values = out.parts.values;
    return out;
  }
  LITHIFY_TRY_ASSIGN(out.parts, TakeApart(header, page.body, shape));
  out.values = out.parts.values;
  if (!header.is_compressed || !page.packed) return out;
  const int64_t size = int64_t{header.uncompressed_page_size} - header.v2_level_bytes();
  if (size > 0) LITHIFY_TRY(codec.Decompress(out.values, size, buffer));
  out.values = BytesOf(*buffer);
  return out;
}

bool HasPlainForm(PageEncoding encoding, const PlainForm& form) {
  switch (encoding) {
    case PageEncoding::kPlain: return true;
    case PageEncoding::kRle: return form.kind == PlainForm::Kind::kBoolean;
    case PageEncoding::kByteStreamSplit: return form.kind == PlainForm::Kind::kFixed;
    default: return false;
  }
}

Result<std::span<const uint8_t>> ToPlain(PageEncoding encoding, const PlainForm& form,
                                         std::span<const uint8_t> values, int64_t count,
                                         std::string* buffer) {
  if (encoding == PageEncoding::kPlain || count == 0) return values;
  buffer->clear();
  if (encoding == PageEncoding::kRle) {
    LITHIFY_TRY(BitsOfRuns(values, count, buffer));
    return BytesOf(*buffer);
  }
  if (encoding != PageEncoding::kByteStreamSplit) {
    return Fail(Code::kUnsupported, "values in encoding " +
                                        std::to_string(static_cast<int>(encoding)) +
                                        " are not taken apart");
  }
  // Streams are as long as there are values: bytes behind them would shift all.
  if (count * form.bytes != std::ssize(values)) return ValuesCutOff();
  JoinStreams(values, static_cast<size_t>(count), static_cast<size_t>(form.bytes), buffer);
  return BytesOf(*buffer);
}

void AppendEncoded(PageEncoding encoding, const PlainForm& form, std::span<const uint8_t> plain,
                   int64_t count, std::string* out) {
  if (encoding == PageEncoding::kRle) {
    std::vector<uint32_t> bits(static_cast<size_t>(count));
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = plain[i / 8] >> (i % 8) & 1U;
    std::string hybrid;
    AppendHybrid(bits, 1, &hybrid);
    AppendWithLength(hybrid, out);
  } else if (encoding == PageEncoding::kByteStreamSplit) {
    SplitStreams(plain, static_cast<size_t>(count), static_cast<size_t>(form.bytes), out);
  } else {
    out->append(reinterpret_cast<const char*>(plain.data()), plain.size());
  }
}

}  // namespace lithify::rewrite
