// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "exchange/formats/chakra_nodes.h"
#include "exchange/import/format_version.h"
#include "exchange/parse/protobuf.h"

namespace tessera::exchange {
namespace {

constexpr std::size_t chakra_label_max = 160;

/// A file of messages, each after its length as a varint.
class MessageStream {
 public:
  explicit MessageStream(SourceFile& source) : source_(source), buffer_(1 << 20, '\0') {}

  /// The next one, valid until the next call; none: the end. Fails: corrupt, and as the file.
  Result<std::optional<std::string_view>> next() {
    constexpr std::uint64_t size_max = std::uint64_t{64} << 20;
    TESSERA_TRY(fill(10));
    if (rest().empty()) return std::optional<std::string_view>();
    std::string_view bytes = rest();
    std::uint64_t size = 0;
    if (!take_varint(bytes, size) || size > size_max) {
      return source_.error(Code::corrupt,
                           "it is no Chakra trace, or a damaged one: a message's "
                           "length is none");
    }
    at_ = filled_ - bytes.size();
    TESSERA_TRY(fill(size));
    if (rest().size() < size) {
      return source_.error(Code::corrupt, "it ends in the middle of a message");
    }
    at_ += size;
    return std::optional(std::string_view(buffer_).substr(at_ - size, size));
  }

 private:
  std::string_view rest() const { return std::string_view(buffer_).substr(at_, filled_ - at_); }

  /// At least `size` bytes from `at_` on, if the file has so many.
  Status fill(std::uint64_t size) {
    if (filled_ - at_ >= size) return {};
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
    filled_ -= at_;
    at_ = 0;
    while (filled_ < size) {
      if (filled_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
      TESSERA_ASSIGN(const std::size_t read, source_.read(std::span(buffer_).subspan(filled_)));
      if (read == 0) break;
      filled_ += read;
    }
    return {};
  }

  SourceFile& source_;
  std::string buffer_;
  std::size_t at_ = 0, filled_ = 0;
};

ChakraAttribute attribute_of(std::string_view message) {
  ChakraAttribute out;
  for (ProtoFields fields(message); fields.next();) {
    if (fields.number() == 1) out.name = fields.bytes();
    const bool zigzag = fields.number() == 15 || fields.number() == 19;
    if (fields.number() == 29) out.text = fields.bytes();
    if (fields.number() < 3 || fields.has_bytes()) continue;
    const std::uint64_t raw = fields.integer();
    const std::int64_t decoded =
        static_cast<std::int64_t>(raw >> 1) ^ -static_cast<std::int64_t>(raw & 1);
    out.integer = zigzag ? decoded : fields.signed_integer();
  }
  return out;
}

/// Numbers of a repeated field, packed or not.
void add_numbers(const ProtoFields& field, std::vector<std::int64_t>& to) {
  constexpr std::size_t numbers_max = 1 << 16;
  if (!field.has_bytes() && to.size() < numbers_max) to.push_back(field.signed_integer());
  std::string_view packed = field.bytes();
  for (std::uint64_t value = 0; to.size() < numbers_max && take_varint(packed, value);) {
    to.push_back(static_cast<std::int64_t>(value));
  }
}

ChakraNode chakra_node(std::string_view message, ImportedRun& run, bool& broken) {
  ChakraNode chakra;
  ExecutionNode& node = chakra.node;
  ProtoFields fields(message);
  while (fields.next()) {
    const std::int64_t number = fields.signed_integer();
    switch (fields.number()) {
      case 1: node.id = number; break;
      case 2: node.name = run.text(fields.bytes().substr(0, chakra_label_max)); break;
      case 3: chakra.type = number; break;
      case 4:
      case 5: add_numbers(fields, node.after); break;
      case 6: node.begin = chakra_time(number); break;
      case 7: node.duration = chakra_time(number); break;
      case 10: add_attribute(attribute_of(fields.bytes()), run, chakra); break;
      default: break;
    }
  }
  broken = fields.broken();
  return chakra;
}

}  // namespace

bool is_chakra(const SourceFile& source) {
  // The first message is GlobalMetadata: a version, or nothing, and attributes.
  std::string_view bytes = source.head();
  std::uint64_t size = 0;
  if (!take_varint(bytes, size) || size > bytes.size() || bytes.size() < 2) return false;
  for (ProtoFields fields(bytes.substr(0, size)); fields.next();) {
    if (fields.broken() || !fields.has_bytes() || fields.number() > 2) return false;
  }
  bytes.remove_prefix(size);
  // Behind it is a node: an id, a name, a type.
  if (!take_varint(bytes, size) || size == 0) return false;
  bool id = false, name = false;
  for (ProtoFields fields(bytes.substr(0, size)); fields.next();) {
    if (fields.number() > 10) return false;
    id = id || (fields.number() == 1 && !fields.has_bytes());
    name = name || (fields.number() == 2 && fields.has_bytes());
  }
  return id || name;
}

Status read_chakra(SourceFile& source, const ImportLimits& limits, ImportedRun& run) {
  MessageStream messages(source);
  ChakraNodes nodes(source, limits, run);
  for (std::int64_t nth = -1;; ++nth) {
    TESSERA_ASSIGN(const std::optional<std::string_view> message, messages.next());
    if (!message) break;
    if (nth < 0) {  // the metadata
      for (ProtoFields fields(*message); fields.next();) {
        if (fields.number() != 1 || !fields.has_bytes()) continue;
        tell_version(fields.bytes(), {"traces of Chakra", {0, 0}, {0, 0}}, run);
      }
      continue;
    }
    bool broken = false;
    ChakraNode node = chakra_node(*message, run, broken);
    if (broken) {
      return source.error(
          Code::corrupt,
          fmt::format("it is no Chakra trace, or a damaged one: node {} is none", nth));
    }
    TESSERA_TRY(nodes.add(std::move(node), std::ssize(*message)));
  }
  return nodes.finish();
}

}  // namespace tessera::exchange
