// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/pickle.h"

#include <algorithm>
#include <limits>

#include "exchange/import/pickle_heap.h"

namespace tessera::exchange {
namespace {

constexpr std::int64_t keys_of_a_record = 256;

/// The node that holds the entries: that of an object, if something was put into it.
const PickleNode* container_of(const PickleHeap* heap, std::uint32_t word) {
  if (heap == nullptr) return nullptr;
  const PickleNode* node = heap->node(word);
  if (node != nullptr && node->kind == PickleKind::object) {
    node = heap->node(heap->cells[node->first + items_cell]);
  }
  const bool filled =
      node != nullptr && (node->kind == PickleKind::list || node->kind == PickleKind::dict);
  return filled ? node : nullptr;
}

std::int64_t clamped(double value) {
  constexpr double end = 9223372036854775808.0;
  if (!(value > -end)) return value < 0 ? std::numeric_limits<std::int64_t>::min() : 0;
  return value < end ? static_cast<std::int64_t>(value) : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

PickleKind PickleValue::kind() const {
  if (heap_ == nullptr) return PickleKind::missing;
  switch (word::tag_of(word_)) {
    case word::small: return PickleKind::integer;
    case word::node: return heap_->node(word_)->kind;
    default: break;
  }
  if (word_ == word::none) return PickleKind::none;
  return word_ == word::missing ? PickleKind::missing : PickleKind::boolean;
}

std::int64_t PickleValue::integer(std::int64_t otherwise) const {
  switch (kind()) {
    case PickleKind::boolean: return word_ == word::yes ? 1 : 0;
    case PickleKind::real: return clamped(real());
    case PickleKind::integer:
      return word::tag_of(word_) == word::small
                 ? word::small_of(word_)
                 : static_cast<std::int64_t>(heap_->node(word_)->payload);
    default: return otherwise;
  }
}

double PickleValue::real(double otherwise) const {
  if (is(PickleKind::real)) return std::bit_cast<double>(heap_->node(word_)->payload);
  const bool number = is(PickleKind::integer) || is(PickleKind::boolean);
  return number ? static_cast<double>(integer()) : otherwise;
}

std::string_view PickleValue::text() const {
  if (!is(PickleKind::text)) return {};
  const PickleNode& node = *heap_->node(word_);
  if (node.owned) return heap_->texts[node.payload];
  return std::string_view(heap_->bytes).substr(node.payload, node.first);
}

std::int64_t PickleValue::size() const {
  const PickleNode* node = container_of(heap_, word_);
  return node == nullptr ? 0 : static_cast<std::int64_t>(node->payload >> 32);
}

PickleValue PickleValue::operator[](std::string_view key) const {
  std::int64_t left = keys_of_a_record;
  for (PickleItems items(*this); left > 0 && items.next(); --left) {
    const PickleValue found = items.key();
    if (found.is(PickleKind::text) && found.text() == key) return items.value();
  }
  if (!is(PickleKind::object)) return {};
  const std::uint32_t state = heap_->cells[heap_->node(word_)->first + state_cell];
  const PickleNode* node = heap_->node(state);
  const bool dict = node != nullptr && node->kind == PickleKind::dict;
  return dict ? PickleValue(heap_, state)[key] : PickleValue();
}

PickleValue PickleValue::at(std::int64_t index) const {
  PickleItems items(*this);
  while (items.next()) {
    if (index-- == 0) return items.value();
  }
  return {};
}

std::string PickleValue::name() const {
  if (!is(PickleKind::object)) return {};
  const std::uint32_t first = heap_->node(word_)->first;
  const PickleValue module(heap_, heap_->cells[first + module_cell]);
  const PickleValue name(heap_, heap_->cells[first + name_cell]);
  if (!name.is(PickleKind::text)) return {};
  return std::string(module.text()).append(".").append(name.text());
}

PickleValue PickleValue::arguments() const {
  if (!is(PickleKind::object)) return {};
  return {heap_, heap_->cells[heap_->node(word_)->first + arguments_cell]};
}

PickleItems::PickleItems(PickleValue container) {
  const PickleNode* node = container_of(container.heap_, container.word_);
  if (node == nullptr) return;
  heap_ = container.heap_;
  dict_ = node->kind == PickleKind::dict;
  segment_ = node->first;
}

bool PickleItems::word(std::uint32_t& word) {
  if (at_ == heap_->cells[segment_ + 1]) {
    segment_ = heap_->cells[segment_];
    at_ = 0;
    if (segment_ == 0) return false;
  }
  word = heap_->cells[segment_ + 2 + at_++];
  return true;
}

bool PickleItems::next() {
  if (heap_ == nullptr || segment_ == 0) return false;
  if (--heap_->steps_left < 0) {
    heap_->exhausted = true;
    return false;
  }
  if (!dict_) return word(value_);
  return word(key_) && word(value_);
}

Pickle::Pickle(std::unique_ptr<PickleHeap> heap) : heap_(std::move(heap)) {}
Pickle::Pickle(Pickle&&) noexcept = default;
Pickle& Pickle::operator=(Pickle&&) noexcept = default;
Pickle::~Pickle() = default;

PickleValue Pickle::root() const { return {heap_.get(), heap_->root}; }
bool Pickle::exhausted() const { return heap_->exhausted; }
std::int64_t Pickle::memory() const { return static_cast<std::int64_t>(heap_->memory()); }

}  // namespace tessera::exchange
