// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exchange/formats/chakra.h"
#include "exchange/formats/execution_nodes.h"
#include "exchange/import/collective_bytes.h"
#include "exchange/import/file_rank.h"
#include "exchange/import/format_version.h"
#include "exchange/import/torch_collectives.h"
#include "exchange/parse/json_stream.h"

namespace tessera::exchange {
namespace {

/// What a node's text says, before it is known what it is.
struct ObservedNode {
  std::string_view name, category, id, parent, order, thread, begin, duration;
  std::string_view group, description, group_size, in, out, dtype, collective;
  std::string_view values, types;  // of the inputs, as JSON
};

struct ObservedKey {
  std::string_view name;
  std::string_view ObservedNode::*member;
};

constexpr ObservedKey observed_keys[] = {
    {"id", &ObservedNode::id},
    {"name", &ObservedNode::name},
    {"ctrl_deps", &ObservedNode::parent},
    {"parent", &ObservedNode::parent},
    {"rf_id", &ObservedNode::order},
    {"tid", &ObservedNode::thread},
    {"ts", &ObservedNode::begin},
    {"dur", &ObservedNode::duration},
    {"cat", &ObservedNode::category},
    {"stream", &ObservedNode::thread},
    {"pg_name", &ObservedNode::group},
    {"pg_desc", &ObservedNode::description},
    {"pg_size", &ObservedNode::group_size},
    {"in_msg_nelems", &ObservedNode::in},
    {"out_msg_nelems", &ObservedNode::out},
    {"dtype", &ObservedNode::dtype},
    {"collective_name", &ObservedNode::collective},
};

bool take_key(JsonCursor& at, std::string_view key, ObservedNode& node) {
  for (const ObservedKey& known : observed_keys) {
    if (known.name != key) continue;
    const char first = at.peek();
    if (first == '[' || first == '{') break;
    return at.scalar(node.*known.member);
  }
  return at.skip();
}

/// [{"name": "rf_id", "type": "uint64", "value": 3}, ...]
bool take_attributes(JsonCursor& at, ObservedNode& node) {
  if (!at.take('[')) return at.skip();
  while (!at.take(']')) {
    if (at.peek() == 0) return false;
    std::string_view name, value;
    JsonMembers members(at);
    while (members.next()) {
      const char first = at.peek();
      const bool plain = first != '[' && first != '{';
      const bool good = members.key() == "name" && plain    ? at.scalar(name)
                        : members.key() == "value" && plain ? at.scalar(value)
                                                            : at.skip();
      if (!good) members.fail();
    }
    if (!members.whole()) return false;
    for (const ObservedKey& known : observed_keys) {
      if (known.name == name && name != "id" && name != "name") node.*known.member = value;
    }
    at.take(',');
  }
  return true;
}

bool take_inputs(JsonCursor& at, ObservedNode& node) {
  if (at.peek() != '{') return at.skip();
  JsonMembers members(at);
  while (members.next()) {
    const bool good = members.key() == "values"  ? at.raw(node.values)
                      : members.key() == "types" ? at.raw(node.types)
                                                 : at.skip();
    if (!good) members.fail();
  }
  return members.whole();
}

bool take_node(JsonCursor& at, ObservedNode& node) {
  JsonMembers members(at);
  while (members.next()) {
    const bool good = members.key() == "attrs"    ? take_attributes(at, node)
                      : members.key() == "inputs" ? take_inputs(at, node)
                                                  : take_key(at, members.key(), node);
    if (!good) members.fail();
  }
  return members.whole();
}

/// Bytes of tensors among values: [id, storage, offset, elements, bytes of one, device], or lists
/// of such.
std::int64_t tensor_bytes(const nlohmann::json& values, int depth) {
  constexpr std::int64_t most = std::int64_t{1} << 46;
  if (!values.is_array()) return 0;
  const bool tensor =
      values.size() == 6 && values[3].is_number_integer() && values[4].is_number_integer();
  if (tensor) {
    const auto elements = std::clamp<std::int64_t>(values[3].get<std::int64_t>(), 0, most);
    return elements * std::clamp<std::int64_t>(values[4].get<std::int64_t>(), 0, 16);
  }
  std::int64_t sum = 0;
  for (const auto& value : values) {
    if (depth < 3) sum = std::min(sum + tensor_bytes(value, depth + 1), most);
  }
  return sum;
}

/// "float" of ["Tensor(float)", ...] and ["GenericList[Tensor(float)]", ...].
std::string_view tensor_type(std::string_view types) {
  const std::size_t begin = types.find("Tensor(");
  if (begin == types.npos) return {};
  types.remove_prefix(begin + 7);
  return types.substr(0, types.find(')'));
}

class ExecutionTraceReader {
 public:
  ExecutionTraceReader(SourceFile& source, const ImportLimits& limits, ImportedRun& run)
      : source_(source), stream_(source), limits_(limits), run_(run) {}

  Status read() {
    TESSERA_TRY(find_nodes());
    while (true) {
      TESSERA_ASSIGN(const char next, stream_.peek());
      if (next == ']') break;
      if (next == ',') {
        stream_.skip_char();
        continue;
      }
      const Status status = stream_.value([&](JsonCursor& at) {
        ObservedNode node;
        const bool good = take_node(at, node);
        if (good && !at.starved()) add(node);
        return good;
      });
      if (stream_.cut_off() && !nodes_.empty()) {
        run_.warn("an execution trace ends in the middle: its program was stopped");
        break;
      }
      TESSERA_TRY(status);
      if (static_cast<std::int64_t>(nodes_.size()) > limits_.spans_max) {
        return source_.error(Code::out_of_memory,
                             fmt::format("it has more than {} nodes", limits_.spans_max));
      }
    }
    if (nodes_.empty()) return source_.error(Code::invalid_argument, "it has no nodes");
    ImportedRank& rank = run_.rank(rank_of_file(source_.name(), true), source_.path());
    add_nodes(std::move(nodes_), rank, run_);
    return {};
  }

 private:
  /// Passes over what is before the list of nodes.
  Status find_nodes() {
    std::string schema;
    TESSERA_TRY(stream_.enter_list("nodes", [&](std::string_view key, JsonCursor& at) {
      std::string_view raw;
      if (key != "schema" || at.peek() != '"') return at.skip();
      if (!at.string(raw)) return false;
      schema = raw.substr(0, 80);
      return true;
    }));
    if (schema.empty()) return {};
    tell_version(schema, {"execution traces of PyTorch (schema)", {1, 0}, {1, 1}}, run_);
    return {};
  }

  void add(const ObservedNode& observed) {
    constexpr Time most = Time{1} << 61;
    // Roots of processes and threads, and what only says which groups there are.
    if (observed.name.empty() || observed.name.starts_with("[pytorch|profiler") ||
        observed.name.find("process_group:init") != std::string_view::npos) {
      return run_.lost("nodes of threads and process groups");
    }
    ExecutionNode node;
    node.id = decimal(observed.id, 0);
    node.parent = observed.parent.empty() ? -1 : decimal(observed.parent, 0);
    node.order = observed.order.empty() ? node.id : decimal(observed.order, 0);
    node.thread = decimal(observed.thread, 0);
    node.begin = std::clamp<Time>(decimal(observed.begin, 3), 0, most);
    node.duration = std::clamp<Time>(decimal(observed.duration, 3), 0, most);
    node.host = observed.category.empty();
    node.name = run_.text(unescaped(observed.name.substr(0, 160)));
    set_collective(observed, node);
    nodes_.push_back(std::move(node));
  }

  void set_collective(const ObservedNode& observed, ExecutionNode& node) {
    const bool called = observed.name.starts_with("record_param_comms") ||
                        observed.name.starts_with("nccl:") || observed.name.starts_with("gloo:") ||
                        observed.name.starts_with("nccl") || !observed.collective.empty();
    if (!called) return;
    const auto kind =
        collective_kind(observed.collective.empty() ? observed.name : observed.collective);
    if (!kind) {
      run_.warn_count(
          "{} calls of the execution trace are sends, gathers or others that are no collective "
          "here",
          1);
      return;
    }
    const auto type =
        torch_type(observed.dtype.empty() ? tensor_type(observed.types) : observed.dtype);
    node.collective = true;
    node.host = false;
    node.kind = *kind;
    node.group = run_.text(unescaped(observed.group.substr(0, 200)));
    node.description = run_.text(unescaped(observed.description.substr(0, 200)));
    node.group_size = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(decimal(observed.group_size, 0), 0, 1 << 20));
    node.bytes = collective_bytes(*kind, decimal(observed.in, 0), decimal(observed.out, 0),
                                  type ? type->size : 0);
    constexpr std::size_t values_max = 64 << 10;
    if (node.bytes == Bytes{} && observed.values.size() < values_max) {
      const auto values = nlohmann::json::parse(observed.values, nullptr, false);
      node.bytes = Bytes{tensor_bytes(values, 0)};
    }
    node.dtype_known = type.has_value();
    if (type) node.dtype = type->dtype;
  }

  SourceFile& source_;
  JsonStream stream_;
  const ImportLimits& limits_;
  ImportedRun& run_;
  std::vector<ExecutionNode> nodes_;
};

}  // namespace

bool is_execution_trace(const SourceFile& source) {
  const std::string_view head = source.head().substr(0, 4096);
  const auto has_key = [&](std::string_view key) { return head.find(key) != head.npos; };
  return has_key("\"schema\"") && has_key("\"nodes\"") && !has_key("\"traceEvents\"");
}

Status read_execution_trace(SourceFile& source, const ImportLimits& limits, ImportedRun& run) {
  return ExecutionTraceReader(source, limits, run).read();
}

}  // namespace tessera::exchange
