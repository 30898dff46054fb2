#include "sim_scheduler.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lithify::sim {

uint64_t Dice::Next() {
  uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

Scheduler::Scheduler(Dice& dice, SimClock& clock)
    : dice_(dice),
      clock_(clock),
      stickiness_(1 + dice.Below(12)),
      freeze_one_in_(40 + dice.Below(300)),
      jump_one_in_(60 + dice.Below(400)) {}

int Scheduler::Add(std::string name, std::function<void()> body) {
  auto actor = std::make_unique<Actor>();
  actor->name = std::move(name);
  actor->body = std::move(body);
  actors_.push_back(std::move(actor));
  return static_cast<int>(actors_.size()) - 1;
}

void Scheduler::Run() {
  for (const auto& owned : actors_) {
    Actor* actor = owned.get();
    actor->thread = std::thread([this, actor] {
      actor->baton.acquire();
      actor->body();
      actor->done = true;
      Actor* next = Pick(nullptr);
      (next != nullptr ? next->baton : all_done_).release();
    });
  }
  if (Actor* first = Pick(nullptr)) {
    first->baton.release();
    all_done_.acquire();
  }
  for (const auto& actor : actors_) actor->thread.join();
}

void Scheduler::Yield(int self) {
  Actor* actor = actors_[static_cast<size_t>(self)].get();
  ++steps_;
  PassTime();
  if (dice_.OneIn(freeze_one_in_)) {
    actor->frozen_until = steps_ + static_cast<uint64_t>(dice_.Between(20, 600));
  }
  Actor* next = Pick(actor);
  if (next == actor) return;
  next->baton.release();
  actor->baton.acquire();
}

void Scheduler::PassTime() {
  clock_.Advance(std::chrono::milliseconds(dice_.Between(1, 400)));
  if (!dice_.OneIn(jump_one_in_)) return;
  constexpr std::array<int, 5> kMinutes = {1, 16, 35, 61, 200};
  clock_.Advance(std::chrono::minutes(kMinutes[dice_.Below(kMinutes.size())]));
}

Scheduler::Actor* Scheduler::Pick(Actor* self) {
  std::vector<Actor*> ready;
  Actor* thawing = nullptr;
  for (const auto& actor : actors_) {
    if (actor->done) continue;
    if (actor->frozen_until <= steps_) ready.push_back(actor.get());
    if (thawing == nullptr || actor->frozen_until < thawing->frozen_until) thawing = actor.get();
  }
  if (ready.empty()) return thawing;
  if (self != nullptr && self->frozen_until <= steps_ && !dice_.OneIn(stickiness_)) return self;
  return ready[dice_.Below(ready.size())];
}

}  // namespace lithify::sim
