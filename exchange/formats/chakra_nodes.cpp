// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/chakra_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

#include "exchange/import/file_rank.h"
#include "exchange/import/torch_collectives.h"

namespace tessera::exchange {
namespace {

enum ChakraType : std::int64_t {
  metadata = 1,
  load = 2,
  store = 3,
  computation = 4,
  send = 5,
  receive = 6,
  collective = 7
};

constexpr std::array<std::string_view, 8> node_types = {
    "INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
    "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"};
constexpr std::array<std::string_view, 10> comm_types = {
    "ALL_REDUCE", "REDUCE",         "ALL_GATHER",           "GATHER", "SCATTER", "BROADCAST",
    "ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"};

std::int64_t number_or_word(std::string_view text, std::span<const std::string_view> words) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return found - words.begin();
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

/// None for gather and scatter.
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

bool moves_data(std::int64_t type) {
  return type == ChakraType::load || type == ChakraType::store || type == ChakraType::send ||
         type == ChakraType::receive || type == ChakraType::collective;
}

/// `kernels`: collectives of the device are in the file, so those of the host are calls of them.
void tell_meaning(std::int64_t type, std::int64_t comm_type, bool kernels, ImportedRun& run,
                  ExecutionNode& node) {
  if (type < ChakraType::load || type > ChakraType::collective) {
    run.warn_count("{} nodes of Chakra are of types that are not known: shown as computation", 1);
  }
  const bool call = type == ChakraType::collective && node.host && kernels;
  if (!moves_data(type) || call) return;
  node.host = false;
  node.kind = OpKind::copy;
  node.collective = type == ChakraType::collective;
  if (!node.collective) return;
  const auto kind =
      comm_type >= 0 ? kind_of_comm_type(comm_type) : collective_kind(run.text(node.name));
  if (!kind) {
    run.warn_count(
        "{} collectives of Chakra are gathers, scatters or of types that are not known: shown as "
        "copies",
        1);
  }
  node.kind = kind.value_or(OpKind::copy);
}

}  // namespace

std::int64_t chakra_node_type(std::string_view text) { return number_or_word(text, node_types); }
std::int64_t chakra_comm_type(std::string_view text) { return number_or_word(text, comm_types); }

Time chakra_time(std::int64_t microseconds) {
  constexpr Time ns_per_unit = 1000, most = std::int64_t{1} << 51;
  return std::clamp<Time>(microseconds, 0, most) * ns_per_unit;
}

void add_attribute(const ChakraAttribute& attribute, ImportedRun& run, ChakraNode& chakra) {
  constexpr std::size_t text_max = 200;
  ExecutionNode& node = chakra.node;
  const std::string_view name = attribute.name;
  const Bytes bytes{std::max<std::int64_t>(0, attribute.integer)};
  if (name == "comm_type") {
    const bool said = !attribute.text.empty();
    chakra.comm_type = said ? chakra_comm_type(attribute.text) : attribute.integer;
  }
  if (name == "comm_size") node.bytes = bytes;
  if (name == "tensor_size" && node.bytes == Bytes{}) node.bytes = bytes;
  if (name == "is_cpu_op") node.host = attribute.integer != 0;
  if (name == "tid") node.thread = attribute.integer;
  if (name == "pg_name" || name == "comm_group") {
    node.group = run.text(attribute.text.empty() ? fmt::format("{}", attribute.integer)
                                                 : std::string(attribute.text.substr(0, text_max)));
  }
  if (name == "pg_desc") node.description = run.text(attribute.text.substr(0, text_max));
}

Status ChakraNodes::add(ChakraNode node, std::int64_t bytes) {
  constexpr std::int64_t nodes_anyway = 10'000, bytes_per_node = 24, bytes_per_dependency = 4;
  bytes_ += bytes;
  if (node.type == ChakraType::metadata) {
    run_.lost("nodes of metadata");
    return {};
  }
  auto& after = node.node.after;
  dependencies_ += std::ssize(after);
  if (dependencies_ > nodes_anyway + bytes_ / bytes_per_dependency) {
    run_.lost("dependencies of nodes", std::ssize(after));
    after = {};
  }
  nodes_.push_back(std::move(node.node));
  types_.emplace_back(node.type, node.comm_type);
  const std::int64_t count = std::ssize(nodes_);
  if (count > nodes_anyway + bytes_ / bytes_per_node) {
    return source_.error(Code::corrupt, "it is no Chakra trace: its nodes have nothing in them");
  }
  if (count > limits_.spans_max) {
    return source_.error(Code::out_of_memory,
                         fmt::format("it has more than {} nodes", limits_.spans_max));
  }
  return {};
}

Status ChakraNodes::finish() {
  if (nodes_.empty()) return source_.error(Code::invalid_argument, "it has no nodes");
  bool kernels = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    kernels |= types_[i].first == ChakraType::collective && !nodes_[i].host;
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    tell_meaning(types_[i].first, types_[i].second, kernels, run_, nodes_[i]);
  }
  add_nodes(std::move(nodes_), run_.rank(rank_of_file(source_.name(), true), source_.path()), run_);
  return {};
}

}  // namespace tessera::exchange
