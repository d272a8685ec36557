// SPDX-License-Identifier: Apache-2.0
// Opcodes that build containers and objects, and those of the stack and the memo.
#include <array>
#include <charconv>

#include "exchange/parse/pickle_machine.h"

namespace tessera::exchange {
namespace pickle_op {
namespace {

constexpr TreeKind list = TreeKind::list, dict = TreeKind::dict;

template <TreeKind kind>
void empty(PickleMachine& machine) {
  machine.push_empty(kind);
}

template <TreeKind kind>
void from_mark(PickleMachine& machine) {
  machine.push_container(kind, machine.pop_mark());
}

/// What lies above the last `count` values of the stack, if it has so many.
std::size_t last(PickleMachine& machine, std::size_t count) {
  const bool enough = machine.above_mark() >= count;
  if (!enough) machine.fail("it takes more values than it has given");
  return machine.depth() - (enough ? count : 0);
}

template <std::size_t count>
void tuple(PickleMachine& machine) {
  machine.push_container(list, last(machine, count));
}

/// One entry of the container below it.
template <TreeKind kind>
void add_one(PickleMachine& machine) {
  constexpr std::size_t count = kind == dict ? 2 : 1;
  const std::size_t from = last(machine, count + 1) + 1;
  if (from > machine.depth()) return;
  machine.append(machine.value_at(from - 1), kind, from);
}

template <TreeKind kind>
void add_from_mark(PickleMachine& machine) {
  const std::size_t from = machine.pop_mark();
  if (machine.above_mark() <= machine.depth() - from) {
    return machine.fail("it fills a container that is not there");
  }
  machine.append(machine.value_at(from - 1), kind, from);
}

void mark(PickleMachine& machine) { machine.mark(); }
void drop(PickleMachine& machine) {
  machine.at_mark() ? static_cast<void>(machine.pop_mark()) : static_cast<void>(machine.pop());
}
void drop_to_mark(PickleMachine& machine) { machine.truncate(machine.pop_mark()); }
void duplicate(PickleMachine& machine) { machine.push(machine.top()); }

std::uint64_t index_line(PickleMachine& machine) {
  const std::string_view text = machine.line();
  std::uint64_t index = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool known = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!known) machine.fail("it numbers a value by what is no number");
  return index;
}

template <std::size_t bytes>
void get(PickleMachine& machine) {
  machine.fetch(machine.number(bytes));
}
void get_line(PickleMachine& machine) { machine.fetch(index_line(machine)); }
template <std::size_t bytes>
void put(PickleMachine& machine) {
  machine.store(machine.number(bytes));
}
void put_line(PickleMachine& machine) { machine.store(index_line(machine)); }
void memoize(PickleMachine& machine) { machine.store(machine.memo_size()); }

constexpr auto container_opcodes = std::to_array<PickleOpcode>({
    {']', empty<list>},
    {')', empty<list>},
    {'}', empty<dict>},
    {0x8F, empty<list>},
    {'l', from_mark<list>},
    {'t', from_mark<list>},
    {0x91, from_mark<list>},
    {'d', from_mark<dict>},
    {0x85, tuple<1>},
    {0x86, tuple<2>},
    {0x87, tuple<3>},
    {'a', add_one<list>},
    {'s', add_one<dict>},
    {'e', add_from_mark<list>},
    {0x90, add_from_mark<list>},
    {'u', add_from_mark<dict>},
    {'(', mark},
    {'0', drop},
    {'1', drop_to_mark},
    {'2', duplicate},
    {'g', get_line},
    {'h', get<1>},
    {'j', get<4>},
    {'p', put_line},
    {'q', put<1>},
    {'r', put<4>},
    {0x94, memoize},
});

}  // namespace
}  // namespace pickle_op

std::span<const PickleOpcode> pickle_container_opcodes() { return pickle_op::container_opcodes; }

}  // namespace tessera::exchange
