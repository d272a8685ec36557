// SPDX-License-Identifier: Apache-2.0
// Figures of tuning.cc in NCCL v2.19.4, v2.27.7, v2.28.9 and v2.30.7.
#include "sim/collectives/constants.h"

#include <algorithm>
#include <bit>

namespace tessera::sim {
namespace {

enum Generation { volta, ampere, hopper, blackwell };

Generation generation_of(int capability) {
  if (capability >= 100) return blackwell;
  if (capability >= 90) return hopper;
  return capability >= 80 ? ampere : volta;
}

using PerGeneration = std::array<PerNodes, 4>;

// Rows of the first serve one node by its GPU, and several by the CPU: Intel or ARM, AMD.
constexpr PerGeneration ll_most = {
    {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr PerGeneration ring_ll128_most = {
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}}};
constexpr PerGeneration tree_ll128_most = {
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
constexpr PerGeneration tree_most = {
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
constexpr PerGeneration nvls_tree_most = {
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.8}}};
constexpr std::array nvls_efficiency = {0.0, 0.0, 0.85, 0.74};

// Tree, ring, CollNet direct and chain, NVLS, NVLS tree, PAT; each LL, LL128, Simple.
constexpr std::array<PerProtocol, algorithms> base = {
    {{6.8, 14, 8.4}, {6.6, 14, 8.4}, {}, {}, {}, {}, {8, 8, 8}}};
constexpr std::array<std::array<PerProtocol, algorithms>, 3> hop = {
    {{{{0.6, 1.25, 4},
       {0.6, 1.9, 3.4},
       {0, 0, 3.7},
       {0, 0, 2.8},
       {0, 0, 25},
       {0, 0, 25},
       {0, 0, 4}}},
     {{{1, 1.9, 4}, {1, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {}, {}, {0, 0, 4}}},
     {{{5, 8.5, 14}, {2.7, 4, 14}, {0, 0, 31}, {0, 0, 30}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}}}}};

constexpr int tree_sizes = 23;
constexpr std::array<std::array<double, tree_sizes>, protocols> tree_corrections = {
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

void set_hop(Constants& c, Algorithm algorithm, std::initializer_list<Hop> hops, double us) {
  for (const Hop h : hops) c.hop[at(h)][at(algorithm)][at(Protocol::simple)] = us;
}

void as_in_2_27(Constants& c, Generation generation) {
  c.early_nvls = true;
  set_hop(c, Algorithm::nvls_tree, {Hop::network}, 14);
  if (generation != blackwell) return;
  const auto twice = [](PerNodes rates) {
    for (double& rate : rates) rate *= 2;
    return rates;
  };
  c.ring_ll128_most = twice(ring_ll128_most[hopper]);
  c.tree_ll128_most = twice(tree_ll128_most[hopper]);
  c.tree_most = twice(tree_most[hopper]);
}

void as_in_2_19(Constants& c, Generation generation, std::size_t ll_row) {
  as_in_2_27(c, generation);
  c.early_rings = true;
  c.tree_latency_alone = false;
  c.has_pat = false;
  c.base[at(Algorithm::tree)][at(Protocol::simple)] = 0;
  set_hop(c, Algorithm::tree, {Hop::nvlink, Hop::pcie, Hop::network}, 28);
  set_hop(c, Algorithm::nvls, {Hop::nvlink}, 23);
  set_hop(c, Algorithm::nvls_tree, {Hop::nvlink}, 23);
  c.ll_most = ll_most[std::min<std::size_t>(ll_row, ampere)];
  const auto newest = std::min<std::size_t>(generation, hopper);
  c.ring_ll128_most = ring_ll128_most[newest];
  c.tree_ll128_most = tree_ll128_most[newest];
  c.tree_most = tree_most[newest];
}

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  constexpr std::array<std::string_view, algorithms> names = {
      "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
  return names[at(algorithm)];
}

std::string_view name_of(Protocol protocol) {
  constexpr std::array<std::string_view, protocols> names = {"LL", "LL128", "Simple"};
  return names[at(protocol)];
}

bool knows_version(std::string_view version) {
  return std::find(nccl_versions.begin(), nccl_versions.end(), version) != nccl_versions.end();
}

bool knows_gpu(const NcclFacts& facts) {
  return facts.version != "2.19" || facts.compute_capability < 100;
}

Constants constants_of(const NcclFacts& facts, bool one_node) {
  const Generation generation = generation_of(facts.compute_capability);
  const std::size_t ll_row = one_node ? at(generation) : facts.cpu == NcclFacts::Cpu::amd ? 1 : 0;
  Constants c{.base = base, .hop = hop};
  c.ll_most = ll_most[ll_row];
  c.ring_ll128_most = ring_ll128_most[generation];
  c.tree_ll128_most = tree_ll128_most[generation];
  c.tree_most = tree_most[generation];
  c.nvls_tree_most = nvls_tree_most[generation];
  c.nvls_efficiency = nvls_efficiency[generation];
  if (facts.version == "2.19") as_in_2_19(c, generation, ll_row);
  if (facts.version == "2.27") as_in_2_27(c, generation);
  if (facts.version == "2.30" && generation == blackwell) {
    c.ring_ll128_most = {40, 40, 40};
    c.nvls_tree_most = {0, 96, 80};
    c.nvls_tree_corrected = facts.cpu != NcclFacts::Cpu::arm;
  }
  return c;
}

int log2_floor(std::int64_t value) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))) - 1;
}

double tree_correction(Protocol protocol, std::int64_t bytes) {
  const int size = log2_floor(bytes >> 6);
  return size >= 0 && size < tree_sizes ? tree_corrections[at(protocol)][at(size)] : 1;
}

}  // namespace tessera::sim
