// SPDX-License-Identifier: Apache-2.0
#include "cli/options/zero12_options.h"

#include "cli/options/checks.h"

namespace tessera::cli {

void add_zero12_options(CLI::App& command, Zero12Arguments& a) {
  command
      .add_option("--allgather-bucket", a.options.allgather_bucket.value,
                  "Stepped parameters that are gathered together, even")
      ->check(within(2, std::int64_t{1} << 50))
      ->capture_default_str()
      ->group(zero12_group);
  command
      .add_flag("--overlap-comm", a.options.overlap_comm, "zero2: reduce while backward goes on")
      ->group(zero12_group);
  command.add_flag("--reduce-by-all-reduce", a.all_reduce, "Every rank gets every gradient's mean")
      ->group(zero12_group);
  command
      .add_flag("--round-robin-gradients", a.options.round_robin_gradients,
                "zero2: gradients ready in a row have different owners")
      ->group(zero12_group);
}

Result<Scheme> resolve_zero12(const Zero12Arguments& a, std::int32_t stage, Numel reduce_bucket,
                              const GivenDtypes& given) {
  Zero12Options options = a.options;
  options.stage = stage;
  options.reduce_bucket = reduce_bucket;
  options.reduce_scatter = !a.all_reduce;
  options.param_dtype = given.param.value_or(DType::bfloat16);
  options.reduce_dtype = given.reduce;
  return Scheme(options);
}

}  // namespace tessera::cli
