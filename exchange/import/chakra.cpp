// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "exchange/import/execution_nodes.h"
#include "exchange/import/file_rank.h"
#include "exchange/import/format_version.h"
#include "exchange/import/protobuf.h"

namespace tessera::exchange {
namespace {

constexpr Time chakra_time_unit = 1000;  // ns in a microsecond
constexpr std::int64_t chakra_time_max = std::int64_t{1} << 51;
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

struct ChakraAttribute {
  std::string_view name, text;
  std::int64_t integer = 0;

  explicit ChakraAttribute(std::string_view message) {
    for (ProtoFields fields(message); fields.next();) {
      if (fields.number() == 1) name = fields.bytes();
      const bool zigzag = fields.number() == 15 || fields.number() == 19;
      if (fields.number() == 29) text = fields.bytes();
      if (fields.number() < 3 || fields.has_bytes()) continue;
      const std::uint64_t raw = fields.integer();
      const std::int64_t decoded =
          static_cast<std::int64_t>(raw >> 1) ^ -static_cast<std::int64_t>(raw & 1);
      integer = zigzag ? decoded : fields.signed_integer();
    }
  }
};

/// CollectiveCommType; none for gather and scatter.
std::optional<OpKind> kind_of_comm_type(std::int64_t type) {
  switch (type) {
    case 0: return OpKind::all_reduce;
    case 1: return OpKind::reduce;
    case 2: return OpKind::all_gather;
    case 5: return OpKind::broadcast;
    case 6: return OpKind::all_to_all;
    case 7:
    case 8: return OpKind::reduce_scatter;
    case 9: return OpKind::all_reduce;  // a barrier
    default: return {};
  }
}

enum ChakraType : std::uint64_t {
  metadata = 1,
  load = 2,
  store = 3,
  computation = 4,
  send = 5,
  receive = 6,
  collective = 7
};

/// Numbers of a repeated field, packed or not.
void add_numbers(const ProtoFields& field, std::vector<std::int64_t>& to) {
  constexpr std::size_t numbers_max = 1 << 16;
  if (!field.has_bytes() && to.size() < numbers_max) to.push_back(field.signed_integer());
  std::string_view packed = field.bytes();
  for (std::uint64_t value = 0; to.size() < numbers_max && take_varint(packed, value);) {
    to.push_back(static_cast<std::int64_t>(value));
  }
}

void add_attribute(const ChakraAttribute& attribute, ImportedRun& run, ExecutionNode& node,
                   std::int64_t& comm_type) {
  if (attribute.name == "comm_type") comm_type = attribute.integer;
  if (attribute.name == "comm_size")
    node.bytes = Bytes{std::max<std::int64_t>(0, attribute.integer)};
  if (attribute.name == "tensor_size" && node.bytes == Bytes{}) {
    node.bytes = Bytes{std::max<std::int64_t>(0, attribute.integer)};
  }
  if (attribute.name == "is_cpu_op") node.host = attribute.integer != 0;
  if (attribute.name == "tid") node.thread = attribute.integer;
  if (attribute.name == "pg_name" || attribute.name == "comm_group") {
    node.group = run.text(attribute.text.empty() ? fmt::format("{}", attribute.integer)
                                                 : std::string(attribute.text.substr(0, 200)));
  }
  if (attribute.name == "pg_desc") node.description = run.text(attribute.text.substr(0, 200));
}

/// A node; none for metadata and for what is no node.
std::optional<ExecutionNode> chakra_node(std::string_view message, ImportedRun& run, bool& broken) {
  ExecutionNode node;
  std::uint64_t type = 0;
  std::int64_t comm_type = -1;
  ProtoFields fields(message);
  while (fields.next()) {
    const std::int64_t number = fields.signed_integer();
    switch (fields.number()) {
      case 1: node.id = number; break;
      case 2: node.name = run.text(fields.bytes().substr(0, chakra_label_max)); break;
      case 3: type = fields.integer(); break;
      case 4:
      case 5: add_numbers(fields, node.after); break;
      case 6: node.begin = std::clamp<Time>(number, 0, chakra_time_max) * chakra_time_unit; break;
      case 7:
        node.duration = std::clamp<Time>(number, 0, chakra_time_max) * chakra_time_unit;
        break;
      case 10: add_attribute(ChakraAttribute(fields.bytes()), run, node, comm_type); break;
      default: break;
    }
  }
  broken = fields.broken();
  if (type == ChakraType::metadata) return {};
  if (type < ChakraType::load || type > ChakraType::collective) {
    run.warn_count("{} nodes of Chakra are of types that are not known: shown as computation", 1);
  }
  node.collective = type == ChakraType::collective;
  const bool moves = type == ChakraType::load || type == ChakraType::store ||
                     type == ChakraType::send || type == ChakraType::receive || node.collective;
  node.kind = moves ? OpKind::copy : OpKind::compute;
  if (node.collective) {
    const auto kind = kind_of_comm_type(comm_type);
    if (!kind) {
      run.warn_count(
          "{} collectives of Chakra are gathers, scatters or of types that are not known: shown as "
          "copies",
          1);
    }
    node.kind = kind.value_or(OpKind::copy);
  }
  if (moves) node.host = false;
  return node;
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
  constexpr std::int64_t nodes_anyway = 10'000, bytes_per_node = 24, bytes_per_dependency = 4;
  std::int64_t bytes = 0, dependencies = 0;
  MessageStream messages(source);
  std::vector<ExecutionNode> nodes;
  for (bool first = true;; first = false) {
    TESSERA_ASSIGN(const std::optional<std::string_view> message, messages.next());
    if (!message) break;
    if (first) {  // the metadata
      for (ProtoFields fields(*message); fields.next();) {
        if (fields.number() != 1 || !fields.has_bytes()) continue;
        tell_version(fields.bytes(), {"traces of Chakra", {0, 0}, {0, 0}}, run);
      }
      continue;
    }
    bytes += static_cast<std::int64_t>(message->size());
    bool broken = false;
    auto node = chakra_node(*message, run, broken);
    if (broken) {
      return source.error(
          Code::corrupt,
          fmt::format("it is no Chakra trace, or a damaged one: node {} is none", nodes.size()));
    }
    if (node) nodes.push_back(std::move(*node));
    const auto count = static_cast<std::int64_t>(nodes.size());
    if (node) dependencies += static_cast<std::int64_t>(nodes.back().after.size());
    if (node && dependencies > nodes_anyway + bytes / bytes_per_dependency) {
      run.lost("dependencies of nodes", static_cast<std::int64_t>(nodes.back().after.size()));
      nodes.back().after = {};
    }
    if (count > nodes_anyway + bytes / bytes_per_node) {
      return source.error(Code::corrupt, "it is no Chakra trace: its nodes have nothing in them");
    }
    if (count > limits.spans_max) {
      return source.error(Code::out_of_memory,
                          fmt::format("it has more than {} nodes", limits.spans_max));
    }
  }
  if (nodes.empty()) return source.error(Code::invalid_argument, "it has no nodes");
  add_nodes(std::move(nodes), run.rank(rank_of_file(source.name(), true), source.path()), run);
  return {};
}

}  // namespace tessera::exchange
