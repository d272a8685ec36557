// SPDX-License-Identifier: Apache-2.0
// One parameter of zero3: what is known of it, and the state of its gathered copy.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/param_shard.h"
#include "tessera/assert.h"

namespace tessera {

class Gather;

/// The copy of all of a parameter's elements, from nothing to nothing again:
///
///   not_available --fly--> in_flight --land--> available --free--> not_available
///   not_available --take--> available            (the host waits for the gather)
///
/// A gather lands all of its parameters at once, when the first of them is waited for. The others
/// still have it then: nobody has waited for them, which marks and frees need to know.
class GatheredCopy {
 public:
  enum class State : std::uint8_t { not_available, in_flight, available };

  State state() const { return state_; }
  bool missing() const { return state_ == State::not_available; }
  bool available() const { return state_ == State::available; }
  /// The gather that nobody has waited for on this parameter's behalf; it may be over.
  const std::shared_ptr<Gather>& flying() const { return flying_; }
  /// Padded. It exists from the gather on, or from its end.
  BufferId buffer() const { return buffer_; }

  void fly(std::shared_ptr<Gather> gather) {
    TESSERA_ASSERT(missing(), "what is there, or comes, is not gathered again");
    state_ = State::in_flight;
    flying_ = std::move(gather);
  }
  /// There is memory for it now.
  void place(BufferId buffer) {
    TESSERA_ASSERT(!available() && !buffer_.valid(), "a copy gets its memory once");
    buffer_ = buffer;
  }
  void land() {
    TESSERA_ASSERT(state_ == State::in_flight, "only what flies can land");
    TESSERA_ASSERT(buffer_.valid(), "it lands in its own memory");
    state_ = State::available;
  }
  void take() {
    TESSERA_ASSERT(missing() && buffer_.valid(), "taken is what came without flying");
    state_ = State::available;
  }
  /// Somebody waits for this parameter.
  std::shared_ptr<Gather> wait() { return std::exchange(flying_, nullptr); }
  /// Its memory is the caller's to release.
  BufferId free() {
    TESSERA_ASSERT(available(), "what flies must have landed before it is freed");
    state_ = State::not_available;
    return std::exchange(buffer_, BufferId{});
  }
  /// The gather could not be issued: training ends.
  void give_up() {
    state_ = State::not_available;
    flying_ = nullptr;
  }

  /// The event after its last use; none: the youngest work on the compute stream.
  EventId last_use() const { return last_use_; }
  void used(EventId event) { last_use_ = event; }

 private:
  State state_ = State::not_available;
  std::shared_ptr<Gather> flying_;
  BufferId buffer_;
  EventId last_use_;
};

/// Invalid ids mean "does not exist now".
struct OnDemandParameter {
  ParameterId id;
  ParamShard shard;  // the float32 partition
  Numel numel{};
  Numel partition{};
  bool trained = true;
  bool persistent = false;
  Memory home = Memory::device;  // of the partition that is gathered
  BufferId cast;                 // that partition, if it is not the float32 one itself
  GatheredCopy copy;
  std::multiset<ModuleId> active;  // modules that need it now
  bool dangling = false;           // a module returned it to the one around it
};

/// All of a model, by ParameterId. It notes which ones somebody may have changed, so that whoever
/// keeps an order of them need not look at all of them again.
class OnDemandParameters {
 public:
  /// Notes it: the reference may be written until the next call of `take_changed`.
  OnDemandParameter& operator[](ParameterId id) {
    if (!all_noted_ && !noted_[index(id)]) {
      noted_[index(id)] = true;
      changed_.push_back(id);
    }
    return all_[index(id)];
  }
  const OnDemandParameter& operator[](ParameterId id) const { return all_[index(id)]; }
  bool contains(ParameterId id) const { return id.valid() && index(id) < all_.size(); }
  void add(OnDemandParameter p) {
    all_.push_back(std::move(p));
    noted_.push_back(false);
    all_noted_ = true;
  }
  std::size_t size() const { return all_.size(); }

  /// Notes all of them.
  auto begin() {
    all_noted_ = true;
    return all_.begin();
  }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

  /// Those that may have changed since the last call; none: all of them may have.
  std::optional<std::vector<ParameterId>> take_changed() {
    for (ParameterId id : changed_) noted_[index(id)] = false;
    std::vector<ParameterId> changed = std::exchange(changed_, {});
    if (std::exchange(all_noted_, false)) return std::nullopt;
    return changed;
  }

 private:
  static std::size_t index(ParameterId id) { return id.index(); }

  std::vector<OnDemandParameter> all_;
  std::vector<bool> noted_;  // by ParameterId
  std::vector<ParameterId> changed_;
  bool all_noted_ = true;
};

}  // namespace tessera
