// SPDX-License-Identifier: Apache-2.0
// A sharding scheme with its options as one value, for programs that let their users choose.
//
//   Scheme scheme = Fsdp1Options{.strategy = ShardingStrategy::shard_grad_op};
//   TESSERA_ASSIGN(auto engine, make_engine(runtime, model, scheme));
//   name_of(scheme);                                    // "shard_grad_op"
//
// A name that a user says becomes a scheme without knowing its struct (tessera/option.h):
//
//   TESSERA_ASSIGN(Scheme scheme, scheme_named("zero3"));
//   TESSERA_TRY(set_option(scheme, "policy", "compatible"));
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/fsdp1.h"
#include "tessera/fully_shard.h"
#include "tessera/option.h"
#include "tessera/replicate.h"
#include "tessera/sharded_data_parallel.h"
#include "tessera/zero12.h"
#include "tessera/zero3.h"

namespace tessera {

using Scheme = std::variant<FullyShardOptions, Fsdp1Options, ReplicateOptions,
                            ShardedDataParallelOptions, Zero12Options, Zero3Options>;

/// As `fully_shard`, `fsdp1`, `replicate`, `sharded_data_parallel`, `zero12` or `zero3`.
Result<std::unique_ptr<Engine>> make_engine(Runtime& runtime, const Model& model,
                                            const Scheme& scheme);

/// "fully_shard", the strategy of FSDP1 ("full_shard", ...), "replicate", "sharded_data_parallel",
/// "zero1", "zero2", "zero3".
std::string_view name_of(const Scheme& scheme);
std::string_view name_of(ShardingStrategy strategy);

/// The dtype of forward and backward.
DType compute_dtype(const Scheme& scheme);

/// Fails: not_supported, if a wrap plan lets a unit's parameters have another dtype: those who
/// compute with one dtype alone ask.
Status check_one_dtype(const Scheme& scheme);

/// "fully_shard", "full_shard", ..., "zero3".
std::vector<std::string> scheme_names();

/// The scheme of that name with the default of every option. Fails: invalid_argument, naming those
/// that there are.
Result<Scheme> scheme_named(std::string_view name);

/// Every option of every scheme, a family per struct.
const std::vector<OptionFamily>& option_families();

/// Those that mean something to one scheme.
std::vector<Option> options_known_to(std::string_view scheme);

/// Every option as name and value, so that a trace says how to make it again. A wrap plan is
/// "plan", a line per unit, and "ignored_parameters".
OptionValues options_of(const Scheme& scheme, const Model& model);

/// Fails: invalid_argument (an option that the scheme has not, a value that it cannot have), naming
/// it.
Status set_option(Scheme& scheme, std::string_view name, const OptionValue& value);

/// The scheme that `options_of` wrote down. Fails: as scheme_named and set_option;
/// invalid_argument, if the plan does not fit `model`.
Result<Scheme> scheme_from(std::string_view name, const OptionValues& values, const Model& model);

/// As check_needs of tessera/option.h, of a scheme.
Status check_needs(const Scheme& scheme, const std::vector<std::string>& given,
                   OptionSpelling spelling);

}  // namespace tessera
