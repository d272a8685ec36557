// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/json_tree.h"

#include <map>
#include <nlohmann/json.hpp>

#include "exchange/parse/tree_builder.h"

namespace tessera::exchange {
namespace {

/// What nlohmann's parser tells, pushed on the builder's stack.
class JsonTreeEvents {
 public:
  explicit JsonTreeEvents(TreeBuilder& to) : to_(to) {}

  bool null() { return push(word::none); }
  bool boolean(bool value) { return push(value ? word::yes : word::no); }
  bool number_integer(std::int64_t value) { return to_.push_integer(value), more(); }
  bool number_unsigned(std::uint64_t value) {
    const auto integer = static_cast<std::int64_t>(value);
    integer < 0 ? to_.push_real(static_cast<double>(value)) : to_.push_integer(integer);
    return more();
  }
  bool number_float(double value, const std::string&) { return to_.push_real(value), more(); }
  bool string(std::string& text) { return push_text(text); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool key(std::string& text) { return push_text(text); }
  bool start_object(std::size_t) { return to_.mark(), more(); }
  bool start_array(std::size_t) { return to_.mark(), more(); }
  bool end_object() { return to_.push_container(TreeKind::dict, to_.pop_mark()), more(); }
  bool end_array() { return to_.push_container(TreeKind::list, to_.pop_mark()), more(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) {
    at_ = at;
    to_.fail("it breaks off, or has a character where none may be");
    return false;
  }
  std::size_t at() const { return at_; }

 private:
  bool push(std::uint32_t value) { return to_.push(value), more(); }

  /// Keys, and texts as short as they are, are few and come again.
  bool push_text(const std::string& text) {
    constexpr std::size_t short_text = 40, known_texts = 4096;
    const auto found = known_.find(text);
    if (found != known_.end()) return push(found->second);
    to_.push_owned(text);
    if (text.size() <= short_text && known_.size() < known_texts) known_[text] = to_.top();
    return more();
  }

  bool more() {
    if (++values_ % 256 == 0) to_.check_memory();
    return to_.ok();
  }

  TreeBuilder& to_;
  std::map<std::string, std::uint32_t, std::less<>> known_;
  std::size_t values_ = 0, at_ = 0;
};

}  // namespace

Result<Tree> parse_json_tree(std::string_view text) {
  TreeBuilder builder(text.size());
  JsonTreeEvents events(builder);
  nlohmann::json::sax_parse(text, &events);
  return builder.finish("no JSON", events.at());
}

}  // namespace tessera::exchange
