// SPDX-License-Identifier: Apache-2.0
#include <regex>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

struct WordRule {
  const char* pattern;
  const char* instead;
  std::vector<std::string> only_in;  // empty: everywhere
  std::vector<std::string> not_in = {};
};

const std::vector<std::string> libraries = {"analysis/", "c/",       "engine/",  "inspector/",
                                            "sim/",      "storage/", "training/"};
const std::vector<std::string> deterministic = {"analysis/", "engine/", "sim/", "storage/",
                                                "training/"};

const std::vector<WordRule>& word_rules() {
  static const std::vector<WordRule> rules = {
      {R"(\bsystem_clock\b|\bhigh_resolution_clock\b|\bgettimeofday\b|\bclock_gettime\b)",
       "time is injected; only the surface may measure, with steady_clock",
       {}},
      {R"(\bsteady_clock\b)",
       "time is injected; only cli, inspector and tests of real time may measure",
       {},
       {
           "c/",
           "cli/",
           "examples/own_runtime/",
           "inspector/",
           "tests/bench/",
           "tests/backends/",
       }},
      {R"(\b(std::)?s?rand\s*\(|\brandom_device\b|\bmt19937|\b\w+_int_distribution\b)",
       "randomness is hash(seed, rank, op); tests use a seeded splitmix64",
       {}},
      {R"(\btime\s*\(\s*(NULL|nullptr|0)\s*\)|__DATE__|__TIME__)",
       "a result must not depend on when it was made",
       {}},
      {R"(\bunordered_(multi)?(map|set)\b)",
       "the order of a hash table is not the same everywhere: use a sorted vector or std::map",
       {"engine/", "sim/"}},
      {R"(\bstd::(exp|exp2|expm1|log|log2|log10|log1p|pow|cbrt|sin|cos|tan|sinh|cosh|tanh)\s*\()",
       "libm differs between systems in the last bit: results that are stored do without",
       deterministic},
      {R"(\bgetenv\b)",
       "options are passed in; only cli reads the environment",
       {},
       {"cli/",
        "engine/backends/host/module_file.cpp",  // who embeds may not know where modules lie
        "examples/", "tests/options/manual_test.cpp", "tests/analysis/mutation_test.cpp",
        "tests/backends/cuda/clean_runs_test.cpp", "tests/deepspeed/published_test.cpp",
        "tests/fuzz/fuzz_test.cpp", "tests/inspector/app/layout_test.cpp", "tests/mutated_json.h"}},
      {R"(\b(std::)?(_?exit|quick_exit)\s*\()", "libraries return a Status", libraries},
      {R"(\b(std::)?(printf|fprintf|puts|fputs|putchar)\s*\(|\bstd::c(out|err|log)\b|\bfmt::print)",
       "libraries return a Status, they do not print",
       libraries,
       {"engine/values/status.cpp"}},  // assertion_failed
      {R"(<<<)",
       "device::launch starts kernels: it loads them first and takes no earlier error for theirs",
       {"engine/backends/cuda/"},
       {"engine/backends/cuda/module/device.h"}},
      // Tests name so much of one namespace that a list of using-declarations hides what matters.
      {R"(\busing\s+namespace\s+(?!tessera\b))", "name what is used", {"tests/"}},
      {R"(\busing\s+namespace\b)", "name what is used", {}, {"tests/", "examples/own_loop.cpp"}},
  };
  return rules;
}

bool any_prefix(const SourceFile& file, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (file.in(prefix)) return true;
  }
  return false;
}

}  // namespace

Findings check_words(const SourceFile& file) {
  Findings findings;
  const std::string code = without_comments_and_literals(file.text);
  for (const WordRule& rule : word_rules()) {
    if (!rule.only_in.empty() && !any_prefix(file, rule.only_in)) continue;
    if (any_prefix(file, rule.not_in)) continue;
    const std::regex pattern(rule.pattern);
    for (std::sregex_iterator match(code.begin(), code.end(), pattern), end; match != end;
         ++match) {
      const int line = line_at(code, static_cast<std::size_t>(match->position()));
      findings.push_back({file.path, line, "'" + match->str() + "': " + rule.instead});
    }
  }
  return findings;
}

}  // namespace tidy
