// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/tree.h"

#include <algorithm>
#include <limits>

#include "exchange/parse/tree_heap.h"

namespace tessera::exchange {
namespace {

constexpr std::int64_t keys_of_a_record = 256;

const TreeNode* filled(const TreeNode* node) {
  const bool may =
      node != nullptr && (node->kind == TreeKind::list || node->kind == TreeKind::dict);
  return may ? node : nullptr;
}

/// The node that holds the entries. That of an object is what was put into it or else, as for
/// set([1, 2]), the one container that it was made from.
const TreeNode* container_of(const TreeHeap* heap, std::uint32_t word) {
  if (heap == nullptr) return nullptr;
  const TreeNode* const node = heap->node(word);
  if (node == nullptr || node->kind != TreeKind::object) return filled(node);
  const std::uint32_t items = heap->cells[node->first + items_cell];
  if (items != word::missing) return filled(heap->node(items));
  const TreeNode* const made_from = filled(heap->node(heap->cells[node->first + arguments_cell]));
  const bool one =
      made_from != nullptr && made_from->kind == TreeKind::list && made_from->payload >> 32 == 1;
  return one ? filled(heap->node(heap->cells[made_from->first + 2])) : nullptr;
}

std::int64_t clamped(double value) {
  constexpr double end = 9223372036854775808.0;
  if (!(value > -end)) return value < 0 ? std::numeric_limits<std::int64_t>::min() : 0;
  return value < end ? static_cast<std::int64_t>(value) : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

TreeKind TreeValue::kind() const {
  if (heap_ == nullptr) return TreeKind::missing;
  switch (word::tag_of(word_)) {
    case word::small: return TreeKind::integer;
    case word::node: return heap_->node(word_)->kind;
    default: break;
  }
  if (word_ == word::none) return TreeKind::none;
  return word_ == word::missing ? TreeKind::missing : TreeKind::boolean;
}

std::int64_t TreeValue::integer(std::int64_t otherwise) const {
  switch (kind()) {
    case TreeKind::boolean: return word_ == word::yes ? 1 : 0;
    case TreeKind::real: return clamped(real());
    case TreeKind::integer:
      return word::tag_of(word_) == word::small
                 ? word::small_of(word_)
                 : static_cast<std::int64_t>(heap_->node(word_)->payload);
    default: return otherwise;
  }
}

double TreeValue::real(double otherwise) const {
  if (is(TreeKind::real)) return std::bit_cast<double>(heap_->node(word_)->payload);
  const bool number = is(TreeKind::integer) || is(TreeKind::boolean);
  return number ? static_cast<double>(integer()) : otherwise;
}

std::string_view TreeValue::text() const {
  if (!is(TreeKind::text)) return {};
  const TreeNode& node = *heap_->node(word_);
  if (node.owned) return heap_->texts[node.payload];
  return std::string_view(heap_->bytes).substr(node.payload, node.first);
}

std::int64_t TreeValue::size() const {
  const TreeNode* node = container_of(heap_, word_);
  return node == nullptr ? 0 : static_cast<std::int64_t>(node->payload >> 32);
}

TreeValue TreeValue::operator[](std::string_view key) const {
  std::int64_t left = keys_of_a_record;
  for (TreeItems items(*this); left > 0 && items.next(); --left) {
    const TreeValue found = items.key();
    if (found.is(TreeKind::text) && found.text() == key) return items.value();
  }
  if (!is(TreeKind::object)) return {};
  const std::uint32_t state = heap_->cells[heap_->node(word_)->first + state_cell];
  const TreeNode* node = heap_->node(state);
  const bool dict = node != nullptr && node->kind == TreeKind::dict;
  return dict ? TreeValue(heap_, state)[key] : TreeValue();
}

std::string TreeValue::name() const {
  if (!is(TreeKind::object)) return {};
  const std::uint32_t first = heap_->node(word_)->first;
  const TreeValue module(heap_, heap_->cells[first + module_cell]);
  const TreeValue name(heap_, heap_->cells[first + name_cell]);
  if (!name.is(TreeKind::text)) return {};
  return std::string(module.text()).append(".").append(name.text());
}

TreeValue TreeValue::arguments() const {
  if (!is(TreeKind::object)) return {};
  return {heap_, heap_->cells[heap_->node(word_)->first + arguments_cell]};
}

TreeItems::TreeItems(TreeValue container) {
  const TreeNode* node = container_of(container.heap_, container.word_);
  if (node == nullptr) return;
  heap_ = container.heap_;
  dict_ = node->kind == TreeKind::dict;
  segment_ = node->first;
}

bool TreeItems::word(std::uint32_t& word) {
  if (at_ == heap_->cells[segment_ + 1]) {
    segment_ = heap_->cells[segment_];
    at_ = 0;
    if (segment_ == 0) return false;
  }
  word = heap_->cells[segment_ + 2 + at_++];
  return true;
}

bool TreeItems::next() {
  if (heap_ == nullptr || segment_ == 0) return false;
  if (--heap_->steps_left < 0) {
    heap_->exhausted = true;
    return false;
  }
  if (!dict_) return word(value_);
  return word(key_) && word(value_);
}

Tree::Tree(std::unique_ptr<TreeHeap> heap) : heap_(std::move(heap)) {}
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(Tree&&) noexcept = default;
Tree::~Tree() = default;

TreeValue Tree::root() const { return {heap_.get(), heap_->root}; }
bool Tree::exhausted() const { return heap_->exhausted; }
std::int64_t Tree::memory() const { return static_cast<std::int64_t>(heap_->memory()); }

}  // namespace tessera::exchange
