// SPDX-License-Identifier: Apache-2.0
// Facts about a run that must be alike on all ranks, compared before the first step.
//
// The idea: ranks that disagree about a learning rate or a data file issue the same operations, so
// no check of operations ever finds it, and replicas drift apart. So every rank states its options,
// its model and a checksum of its data as text, and any difference ends the run, all of them named.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/process_runtime.h"

namespace tessera::cli {

/// Names and values, in one order on all ranks: "--seed" and "7".
using Facts = std::vector<std::pair<std::string, std::string>>;

/// A line for each.
std::string facts_text(const Facts& facts);

struct Difference {
  std::string name, here, there;  // "unknown": no such fact
};
/// The facts of two texts that are not the same, by name. Numbers are compared as such: 1e-3 is
/// 0.001.
std::vector<Difference> differences(const std::string& here, const std::string& there);

/// Compares `facts` over all ranks. Fails: invalid_argument, naming each fact in which some rank
/// differs from rank 0, that rank and both values; not_supported, where ranks cannot exchange
/// texts.
Status agree(ProcessRuntime& runtime, const Facts& facts);

}  // namespace tessera::cli
