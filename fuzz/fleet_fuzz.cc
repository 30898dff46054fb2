// What a coordinator sends to a worker, and what a worker answers. The first byte says what the
// rest is: an order, another request, or an answer.
#include "fleet/wire.h"
#include "fuzz_input.h"

namespace lithify::fuzz {
namespace {

void Order(std::string_view body) {
  const auto order = fleet::DecodeOrder(body);
  if (!Gave(order)) return;
  const Secret again = Must(fleet::EncodeOrder(*order), "an order that was read is written");
  const auto back = Must(fleet::DecodeOrder(again.Reveal()), "and read again");
  Require(back.task == order->task && back.loans == order->loans, "as it was");
  (void)fleet::DescribeOrder(back);
}

void Answer(std::string_view body) {
  const auto frame = fleet::DecodeFrame(body);
  if (!Gave(frame)) return;
  const auto again = fleet::EncodeFrame(*frame);
  if (!Gave(again)) return;
  const auto back = Must(fleet::DecodeFrame(*again), "an answer that was written is read");
  Require(back.index() == frame->index(), "as what it was");
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = lithify::fuzz;
  fuzz::Taker taker(fuzz::Text(data, size));
  const int kind = taker.Byte() % 3;
  const std::string_view body = taker.Bytes(size);
  if (kind == 0) fuzz::Order(body);
  if (kind == 1) (void)fuzz::Gave(lithify::fleet::DecodeAttempt(body));
  if (kind == 2) fuzz::Answer(body);
  return 0;
}
