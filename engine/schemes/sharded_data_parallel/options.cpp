// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "engine/schemes/option_lists.h"

namespace tessera {

/// A string per group: "0 1 2".
template <>
struct OptionForm<RankGroups> {
  static void describe(Option& about) { about.kind = OptionKind::list; }
  static OptionValue get(const RankGroups& groups, const Option&) {
    std::vector<std::string> all;
    for (Index g = 0; g < groups.group_count(); ++g) {
      std::vector<Rank> ranks;
      for (Index i = 0; i < groups.group_size(g); ++i) ranks.push_back(groups.member(g, i));
      all.push_back(fmt::format("{}", fmt::join(ranks, " ")));
    }
    return all;
  }
  static Result<std::vector<Rank>> parse(const std::string& text) {
    std::vector<Rank> ranks;
    for (const char* at = text.data(); at != text.data() + text.size();) {
      Rank rank = 0;
      const auto [end, error] = std::from_chars(at, text.data() + text.size(), rank);
      if (error != std::errc{}) {
        return Status(Code::invalid_argument,
                      fmt::format("'{}' is no process group: give ranks such as '0 1 2'", text));
      }
      ranks.push_back(rank);
      at = end == text.data() + text.size() ? end : end + 1;
    }
    return ranks;
  }
  static Status set(RankGroups& groups, const OptionValue& given, const Option&) {
    std::vector<std::vector<Rank>> all;
    for (const std::string& text : std::get<std::vector<std::string>>(given)) {
      TESSERA_ASSIGN(std::vector<Rank> ranks, parse(text));
      all.push_back(std::move(ranks));
    }
    TESSERA_ASSIGN(groups, RankGroups::of(std::move(all)));
    return {};
  }
};

const OptionList<ShardedDataParallelOptions>& option_list(const ShardedDataParallelOptions&) {
  using O = ShardedDataParallelOptions;
  static const auto list =
      OptionList<O>("FairScale: sharded_data_parallel", {"sharded_data_parallel"})
          .add(&O::reduce_buffer_size,
               {.name = "reduce_buffer_size",
                .help = "Elements of an owner's bucket; 0: every gradient alone",
                .more = "exclusive; what finds no room is reduced alone",
                .unit = "elements",
                .most = 1125899906842624})
          .add(&O::reduce_dtype,
               {.name = "reduce_dtype", .help = "Gradient reduction", .unset = "param_dtype"})
          .add(&O::broadcast_dtype,
               {.name = "broadcast_dtype",
                .help = "Stepped values are rounded to this for their broadcast",
                .more = "all ranks keep the rounded values",
                .unset = "param_dtype"})
          .add(&O::broadcast_buffers,
               {.name = "broadcast_buffers",
                .help = "Off: buffers stay local, instead of rank 0's after a reduction"})
          .add(&O::sync_models_at_startup,
               {.name = "sync_models_at_startup",
                .help = "Off: rank 0's values are not broadcast in the beginning"})
          .add(&O::group_size, {.name = "process_group",
                                .help = "Consecutive ranks that own parameters together; 0: all",
                                .more = "groups train on their own",
                                .unit = "ranks",
                                .most = 1048576})
          .add(&O::groups, {.name = "process_groups",
                            .help = "Instead, any groups of one size, each as '0 2 4'",
                            .more = "ranks that are in none do nothing",
                            .unset = "none"})
          .add(&O::dtype, {.name = "param_dtype",
                           .help = "Parameters, gradients and the optimizer's state",
                           .unset = "own"});
  return list;
}

}  // namespace tessera
