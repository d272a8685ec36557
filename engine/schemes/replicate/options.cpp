// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>

#include "engine/options/rank_groups_form.h"
#include "engine/schemes/option_lists.h"

namespace tessera {

// By the names of the hooks. A hook of the host program is written down by its name, too, but only
// the host program can make it again.
template <>
struct OptionForm<std::shared_ptr<CommHook>> {
  static void describe(Option& about) {
    about.kind = OptionKind::word;
    about.words = {"none", "allreduce", "fp16", "bf16", "powersgd"};
  }
  static OptionValue get(const std::shared_ptr<CommHook>& hook, const Option&) {
    return hook ? std::string(hook->name()) : "none";
  }
  static Status set(std::shared_ptr<CommHook>& hook, const OptionValue& given, const Option&) {
    const auto& name = std::get<std::string>(given);
    hook = nullptr;
    if (name == "allreduce") hook = allreduce_hook();
    if (name == "fp16") hook = fp16_compress_hook();
    if (name == "bf16") hook = bf16_compress_hook();
    // Who chooses by name sees few steps, so this one compresses as early as it may.
    if (name == "powersgd") hook = power_sgd_hook({.start_iteration = 2});
    return {};
  }
};

// Sizes, as text.
template <>
struct OptionForm<std::vector<Bytes>> {
  static void describe(Option& about) { about.kind = OptionKind::list; }
  static OptionValue get(const std::vector<Bytes>& sizes, const Option&) {
    std::vector<std::string> texts;
    for (const Bytes size : sizes) texts.push_back(std::to_string(size.value));
    return texts;
  }
  static Status set(std::vector<Bytes>& sizes, const OptionValue& given, const Option& about) {
    sizes.clear();
    for (const std::string& text : std::get<std::vector<std::string>>(given)) {
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
      if (error != std::errc{} || end != text.data() + text.size() || size < 1) {
        return Status(Code::invalid_argument,
                      fmt::format("{}: '{}' is no number of bytes above 0", about.name, text));
      }
      sizes.push_back(Bytes{size});
    }
    return {};
  }
};

const OptionList<ReplicateOptions>& option_list(const ReplicateOptions&) {
  using O = ReplicateOptions;
  static const auto list =
      OptionList<O>("DDP: replicate", {"replicate"})
          .add(&O::bucket_cap, {.name = "bucket_cap",
                                .help = "Bytes at which a bucket is closed",
                                .more = "default: 25 MiB, and 1 MiB for the one that is reduced "
                                        "first; given, it is the first one's, too",
                                .unit = "bytes",
                                .unset = "default",
                                .least = 1,
                                .most = 1125899906842624})
          .add(&O::first_bucket_cap, {.name = "first_bucket_cap",
                                      .help = "The same, of the bucket that is reduced first",
                                      .unit = "bytes",
                                      .unset = "default",
                                      .least = 1,
                                      .most = 1125899906842624})
          .add(&O::bucket_caps,
               {.name = "bucket_caps",
                .help = "Instead: bytes of the first buckets, one each; the last is all others'",
                .unit = "bytes"})
          .add(&O::find_unused_parameters,
               {.name = "find_unused_parameters",
                .help = "Parameters that forward did not use count as ready",
                .more = "buckets are not rebuilt"})
          .add(&O::gradient_as_bucket_view,
               {.name = "gradient_as_bucket_view",
                .help = "Gradients live in the buckets: no second copy"})
          .add(&O::static_graph, {.name = "static_graph",
                                  .help = "Every step uses the same parameters",
                                  .more = "the first one reduces at its end"})
          .add(&O::init_sync,
               {.name = "init_sync",
                .help = "Off: the model is neither checked nor broadcast when set up"})
          .add(&O::broadcast_buffers,
               {.name = "broadcast_buffers",
                .help = "Off: buffers stay local, instead of rank 0's after a reduction"})
          .add(&O::ignored_modules, {.name = "ignored_modules",
                                     .help = "Paths of modules whose parameters stay local",
                                     .more = "they are not reduced, nor those tied to them",
                                     .flag = "--ignore-modules"})
          .add(&O::group_size,
               consecutive_groups("process_group",
                                  "Consecutive ranks that train one model together; 0: all"))
          .add(&O::groups, any_groups("process_groups"))
          .add(&O::dtype,
               {.name = "param_dtype", .help = "Parameters, gradients and the optimizer's state"})
          .add(&O::own_dtypes,
               {.name = "own_dtypes",
                .help = "Parameters keep the dtypes that the model states, as in DDP",
                .more = "a bucket is of one dtype; instead of param_dtype"})
          .add(&O::comm_hook, {.name = "comm_hook",
                               .help = "How a bucket is compressed before it is reduced",
                               .more = "fp16 and bf16: half the bytes; powersgd: rank 1, from the "
                                       "third step on"});
  return list;
}

}  // namespace tessera
