// SPDX-License-Identifier: Apache-2.0
// A report for people, as text tables, and for programs, as one JSON object (docs/cli.md).
#pragma once

#include <string>
#include <vector>

#include "tessera/analysis/run.h"

namespace tessera::cli {

using analysis::RunReport;

/// Tables of at most 100 columns. `ranks`: ranks that get a row of their own. `bold`: headings, by
/// ANSI sequences.
std::string report_text(const RunReport& report, const std::vector<Rank>& ranks, bool bold);
/// One JSON object, indented, with raw numbers: ns, bytes, FLOP/s.
std::string report_json(const RunReport& report, const std::vector<Rank>& ranks);

/// To stdout; bold headings on a terminal, unless NO_COLOR is set.
void print_report(const RunReport& report, const std::vector<Rank>& ranks = {});
void print_report_json(const RunReport& report, const std::vector<Rank>& ranks = {});

}  // namespace tessera::cli
