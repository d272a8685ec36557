// SPDX-License-Identifier: Apache-2.0
// What a comparison knows of all operations of a trace.
//
// The idea: a row with its texts takes 200 bytes, and a long run has millions of them; but there
// are few texts, which repeat from step to step. So how an operation looks is in a list once, for
// both traces, and what is kept of an operation is its step and a place in that list.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/id_places.h"
#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// What operations have in common that are the same ones, but for their step and their number;
/// module and micro-batch, too, which nobody asks for.
struct OpLook {
  std::string unit;
  OpKind kind = OpKind::compute;
  Phase phase = Phase::none;
  Reason reason = Reason::none;
  std::int32_t alike = 0;  // the first look that differs at most in its reason
};

/// Looks of the operations of two traces.
class OpLooks {
 public:
  /// Of a look; it is added if it is new.
  std::int32_t place_of(const storage::OpRow& op);
  const OpLook& operator[](std::int32_t place) const {
    return looks_[static_cast<std::size_t>(place)];
  }

 private:
  template <class Text>
  using KeyOf = std::tuple<std::int32_t, Text, Text, OpKind, Phase, Reason>;
  using Key = KeyOf<std::string>;
  using Known = KeyOf<std::string_view>;  // asks for a key without copies
  struct Before {
    using is_transparent = void;
    bool operator()(const Known& a, const Known& b) const { return a < b; }
  };
  std::vector<OpLook> looks_;
  std::map<Key, std::int32_t, Before> places_;
  std::map<Key, std::int32_t, Before> alike_;  // without reason
};

/// How many operations of a kind there are, and what they move.
struct OpWork {
  std::int64_t count = 0;
  double bytes = 0;
};
using WorkOfKinds = std::array<OpWork, static_cast<std::size_t>(op_kind_last) + 1>;

class OpTable {
 public:
  /// All of `trace`, read a few at a time; `work` is of the steps [first, end). `looks` outlives
  /// it. Fails: as Trace::for_each_op.
  static Result<OpTable> of(const Trace& trace, std::int32_t first, std::int32_t end,
                            OpLooks& looks);
  /// Of these alone, without `work`.
  OpTable(const std::vector<storage::OpRow>& ops, OpLooks& looks);

  std::size_t size() const { return look_.size(); }
  std::int32_t step(std::size_t index) const { return step_[index]; }
  std::int32_t look_place(std::size_t index) const { return look_[index]; }
  const OpLook& look(std::size_t index) const { return (*looks_)[look_[index]]; }
  /// The index of the operation, -1: there is none of that id.
  std::int32_t find(std::int32_t id) const { return places_.find(id); }
  const WorkOfKinds& work() const { return work_; }

 private:
  explicit OpTable(OpLooks& looks) : looks_(&looks) {}
  void add(const storage::OpRow& op);

  OpLooks* looks_;
  std::vector<std::int32_t> step_, look_;
  IdPlaces places_;
  WorkOfKinds work_{};
};

}  // namespace tessera::analysis
