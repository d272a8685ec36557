// SPDX-License-Identifier: Apache-2.0
// Opcodes by which Python imports and calls: here they only remember what would be called.
#include <array>

#include "exchange/parse/pickle_machine.h"

namespace tessera::exchange {
namespace pickle_op {
namespace {

using Word = PickleMachine::Word;

void global_line(PickleMachine& machine) {
  machine.push_text(machine.line());
  machine.push_text(machine.line());
  const Word name = machine.pop(), module = machine.pop();
  machine.push_object(module, name, word::missing);
}

void stack_global(PickleMachine& machine) {
  const Word name = machine.pop(), module = machine.pop();
  machine.push_object(module, name, word::missing);
}

template <std::size_t bytes>
void extension(PickleMachine& machine) {
  machine.number(bytes);
  machine.push_object(word::missing, word::missing, word::missing);
}

/// An object of the callable's name; the callable itself may be shared and stays as it is.
void push_call(PickleMachine& machine, Word callable, Word arguments) {
  TreeHeap& heap = machine.heap();
  const TreeNode* const node = heap.node(callable);
  const bool named = node != nullptr && node->kind == TreeKind::object;
  machine.push_object(named ? heap.cells[node->first + module_cell] : word::missing,
                      named ? heap.cells[node->first + name_cell] : word::missing, arguments);
}

void reduce(PickleMachine& machine) {
  const Word arguments = machine.pop(), callable = machine.pop();
  push_call(machine, callable, arguments);
}

void new_object_with_keywords(PickleMachine& machine) {
  machine.pop();
  reduce(machine);
}

void instance_line(PickleMachine& machine) {
  const std::size_t from = machine.pop_mark();
  machine.push_container(TreeKind::list, from);
  const Word arguments = machine.pop();
  global_line(machine);
  push_call(machine, machine.pop(), arguments);
}

void instance(PickleMachine& machine) {
  const std::size_t from = machine.pop_mark();
  if (from >= machine.depth()) return machine.fail("it makes an object of nothing");
  const Word callable = machine.value_at(from);
  machine.push_container(TreeKind::list, from + 1);
  const Word arguments = machine.pop();
  machine.pop();
  push_call(machine, callable, arguments);
}

void build(PickleMachine& machine) {
  const Word state = machine.pop();
  TreeHeap& heap = machine.heap();
  const TreeNode* const node = heap.node(machine.top());
  const bool known = node != nullptr && node->kind == TreeKind::object;
  if (known) heap.cells[node->first + state_cell] = state;
}

void push_persistent(PickleMachine& machine, Word id) {
  machine.push_object(word::missing, word::missing, id);
}

void persistent_line(PickleMachine& machine) {
  machine.push_text(machine.line());
  push_persistent(machine, machine.pop());
}

void persistent(PickleMachine& machine) { push_persistent(machine, machine.pop()); }

template <std::size_t bytes>
void skip(PickleMachine& machine) {
  machine.number(bytes);
}

void protocol(PickleMachine& machine) {
  if (machine.number(1) > 5) machine.fail("its protocol is newer than 5", Code::not_supported);
}

void buffer(PickleMachine& machine) {
  machine.fail("parts of it are in other files", Code::not_supported);
}

void stop(PickleMachine& machine) { machine.stop(); }

constexpr auto object_opcodes = std::to_array<PickleOpcode>({
    {'c', global_line},
    {0x93, stack_global},
    {0x82, extension<1>},
    {0x83, extension<2>},
    {0x84, extension<4>},
    {'R', reduce},
    {0x81, reduce},
    {0x92, new_object_with_keywords},
    {'i', instance_line},
    {'o', instance},
    {'b', build},
    {'P', persistent_line},
    {'Q', persistent},
    {0x80, protocol},
    {0x95, skip<8>},
    {0x97, buffer},
    {0x98, skip<0>},
    {'.', stop},
});

}  // namespace
}  // namespace pickle_op

std::span<const PickleOpcode> pickle_object_opcodes() { return pickle_op::object_opcodes; }

}  // namespace tessera::exchange
