// SPDX-License-Identifier: Apache-2.0
// The rules of the source tree that a machine can check. Each takes text and gives findings, so
// that each is itself tested on a small bad snippet (rules_test.cpp).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/tidy/source_file.h"

namespace tidy {

/// Functions have at most 70 lines, signature and braces included.
Findings check_function_length(const SourceFile& file);

/// Classes have at most 35 functions, in at most 3 .cpp files. `reasons`: by class, why one may
/// have more; a reason that is not needed is a finding, too.
Findings check_class_sizes(const std::vector<SourceFile>& tree,
                           const std::map<std::string, std::string>& reasons);

/// Words that break determinism, layering or readability, each with what to use instead.
Findings check_words(const SourceFile& file);

/// Types are CamelCase, functions and variables snake_case, hidden members end in an underscore.
Findings check_names(const SourceFile& file);

/// Licence line, #pragma once, the comment a public header begins with, name, line and file length.
Findings check_form(const SourceFile& file);

/// Every .cpp is listed in the CMakeLists.txt of its folder or of a folder above; every private
/// header is included by someone.
Findings check_listed(const std::vector<SourceFile>& tree);

/// The long options in the program's texts and those of docs/cli.md are the same.
Findings check_cli_options(const std::vector<SourceFile>& tree);

/// Relative links of Markdown files lead somewhere. `exists` gets paths relative to the repository.
Findings check_links(const SourceFile& file, const std::function<bool(const std::string&)>& exists);

/// Sinks of a trace that keep or pass on what they are told override every call of `interface`,
/// whose calls of few runs have empty defaults.
Findings check_whole_sinks(const SourceFile& interface, const std::vector<SourceFile>& tree);

}  // namespace tidy
