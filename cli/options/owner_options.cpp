// SPDX-License-Identifier: Apache-2.0
#include "cli/options/owner_options.h"

#include "cli/options/checks.h"

namespace tessera::cli {

void add_owner_options(CLI::App& command, OwnerArguments& a) {
  command
      .add_option("--reduce-buffer-size", a.reduce_buffer_size,
                  "Elements of an owner's bucket; 0: every gradient alone")
      ->check(within(0, std::int64_t{1} << 50))
      ->group(owner_group);
  command.add_flag("--broadcast-bf16", a.broadcast_bf16, "Broadcast stepped values as bfloat16")
      ->group(owner_group);
  command.add_flag("--broadcast-fp16", a.broadcast_fp16, "Broadcast stepped values as float16")
      ->excludes("--broadcast-bf16")
      ->group(owner_group);
  command
      .add_option("--process-group", a.process_group,
                  "Consecutive ranks that own parameters together; 0: all")
      ->check(within(0, 1 << 20))
      ->group(owner_group);
}

Result<Scheme> resolve_owner(const OwnerArguments& a, const GivenDtypes& given) {
  ShardedDataParallelOptions options{.reduce_buffer_size = Numel{a.reduce_buffer_size}};
  if (given.param) options.dtype = given.param;
  if (given.reduce) options.reduce_dtype = given.reduce;
  if (a.broadcast_bf16) options.broadcast_dtype = DType::bfloat16;
  if (a.broadcast_fp16) options.broadcast_dtype = DType::float16;
  options.group_size = a.process_group;
  return Scheme(options);
}

}  // namespace tessera::cli
