// SPDX-License-Identifier: Apache-2.0
// Flat parameters against recorded layouts, and what every layout has to keep.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "engine/schemes/fsdp1/flat_layout.h"
#include "tests/random.h"

namespace tessera {
namespace {

std::vector<std::string> lines_of(const std::string& name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/layout/" + name);
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

Model model_of(const std::vector<std::int64_t>& numels) {
  Model model;
  model.modules.push_back({.path = ""});
  for (std::size_t k = 0; k < numels.size(); ++k) {
    model.parameters.push_back(
        {.name = std::string(1, static_cast<char>('a' + k % 26)), .shape = {numels[k]}});
    model.parameters.back().module = ModuleId{0};
  }
  return model;
}

std::vector<ParameterId> all_of(const Model& model) {
  std::vector<ParameterId> ids;
  for (std::size_t k = 0; k < model.parameters.size(); ++k) {
    ids.push_back(ParameterId{static_cast<std::int32_t>(k)});
  }
  return ids;
}

// In the words of the recorded file.
std::string heading(const Model& model, const FlatLayout& l, Index ranks, std::int64_t align) {
  std::ostringstream text;
  text << "params [('a', 5), ('b', 3), ('c', 4)] W " << ranks << " align_numel " << align
       << " -> segs [";
  for (std::size_t e = 0; e < l.entries.size(); ++e) {
    const auto id = l.entries[e].parameter;
    text << (e == 0 ? "('" : ", ('") << (id.valid() ? model.parameter(id).name : "<pad>") << "', "
         << l.entries[e].numel.value << ")";
  }
  text << "] unpadded_unsharded " << l.total.value << " shard " << l.shard.value << " padded "
       << l.padded().value;
  return text.str();
}

std::string of_rank(const Model& model, const FlatLayout& l, Index rank) {
  std::ostringstream text;
  text << "   rank " << rank << " shard_pad " << l.shard_padding(rank).value << " [";
  bool first = true;
  for (std::size_t e = 0; e < l.entries.size(); ++e) {
    if (!l.entries[e].parameter.valid()) continue;
    const ShardParamInfo info = l.info(e, rank);
    text << (first ? "('" : ", ('") << model.parameter(l.entries[e].parameter).name << "', ";
    if (info.in_shard) {
      text << "True, 'off', " << info.offset_in_shard.value << ", 'numel', "
           << info.numel_in_shard.value << ", 'intra', " << info.intra_param_start.value << ", "
           << info.intra_param_end.value << ")";
    } else {
      text << "False)";
    }
    first = false;
  }
  return text.str() + "]";
}

TEST_CASE("flat parameters are laid out and cut as recorded", "[shard][golden]") {
  const auto expected = lines_of("flat_layout_vectors.txt");
  const Model model = model_of({5, 3, 4});
  std::vector<std::string> actual;
  for (Index ranks : {2, 4, 8}) {
    for (std::int64_t align : {0, 4}) {
      const FlatLayout l = flat_layout(model, all_of(model), ranks, Numel{align});
      actual.push_back(heading(model, l, ranks, align));
      for (Index r = 0; r < ranks; ++r) actual.push_back(of_rank(model, l, r));
    }
  }
  // The recorded list ends within the last layout.
  REQUIRE(expected.size() > 20);
  REQUIRE(actual.size() >= expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) CHECK(actual[k] == expected[k]);
}

TEST_CASE("shards are those of torch.chunk", "[shard][golden]") {
  int checked = 0;
  for (const std::string& line : lines_of("vectors_chunk_and_buckets.txt")) {
    if (line.starts_with("BUCKETS")) break;
    std::istringstream in(line);
    std::int64_t numel = 0;
    Index ranks = 0;
    if (!(in >> numel >> ranks)) continue;
    const Model model = model_of({numel});
    const FlatLayout l = flat_layout(model, all_of(model), ranks);
    std::ostringstream text, pads;
    for (Index r = 0; r < ranks; ++r) {
      text << (r == 0 ? "" : ", ") << (l.shard - l.shard_padding(r)).value;
      pads << (r == 0 ? "" : ", ") << l.shard_padding(r).value;
    }
    std::ostringstream whole;
    whole << numel << " " << ranks << " [" << text.str() << "] shard " << l.shard.value << " pads ["
          << pads.str() << "] padded_total " << l.padded().value;
    CHECK(whole.str() == line);
    ++checked;
  }
  CHECK(checked == 14);
}

TEST_CASE("every element of every parameter is in one shard, in order", "[shard][property]") {
  const std::uint64_t seed = GENERATE(range(1, 200));
  INFO("seed=" << seed);
  test::Random random(seed);
  std::vector<std::int64_t> numels(static_cast<std::size_t>(1 + random.below(8)));
  for (auto& n : numels) n = 1 + random.below(40);
  const Model model = model_of(numels);
  const auto ranks = static_cast<Index>(1 + random.below(12));
  const Numel align{random.chance(50) ? 0 : 1 << random.below(4)};
  const FlatLayout l = flat_layout(model, all_of(model), ranks, align);
  if (align > Numel{0}) CHECK(l.total.value % ranks == 0);
  const ShardMap map = shard_map(model, l);
  std::vector<std::int64_t> next(numels.size(), 0);
  Numel padding{};
  for (Index r = 0; r < ranks; ++r) {
    padding += l.shard;
    Numel end{};
    for (const ShardPiece& piece : map.pieces(r)) {
      auto& expected = next[piece.parameter.index()];
      CHECK(piece.first.value == expected);
      CHECK(piece.offset >= end);
      end = piece.offset + piece.numel;
      CHECK(end <= l.shard);
      expected += piece.numel.value;
      padding -= piece.numel;
    }
    CHECK(l.shard_padding(r) <= l.shard);
    if (r + 1 < ranks) CHECK(l.shard_padding(r) <= l.shard_padding(r + 1));
  }
  CHECK(next == numels);
  CHECK(padding == l.padding());
}

}  // namespace
}  // namespace tessera
