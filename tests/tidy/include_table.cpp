// SPDX-License-Identifier: Apache-2.0
// The include table of docs/ARCHITECTURE.md as data: per part of the tree the prefixes of what it
// may include. What no line allows is forbidden.
#include <regex>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

using Prefixes = std::vector<std::string>;

/// What a recorded trace is made of: all that storage and inspector know of the engine's side.
const Prefixes trace_headers = {"tessera/assert.h", "tessera/memory_class.h", "tessera/status.h",
                                "tessera/trace.h", "tessera/types.h"};

struct Part {
  std::string folder;  // the longest match decides
  Prefixes own;        // quoted includes
  Prefixes foreign;    // angle bracket includes beyond the standard library; not in public headers
};

Prefixes operator+(Prefixes a, const Prefixes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<Part>& parts() {
  static const Prefixes text = {"fmt/", "nlohmann/"};
  static const Prefixes cuda = {"cuda", "cublas", "nccl.h"};
  static const Prefixes window = {"imgui", "backends/imgui_", "misc/", "GLFW/", "GL/", "stb/"};
  static const Prefixes every_public = {"tessera/"};
  // The inspector: app -> panels -> widgets -> model -> render.
  static const Prefixes shown =
      trace_headers + Prefixes{"tessera/storage/trace_reader.h", "tessera/analysis/"};
  static const Prefixes below_panels =
      shown + Prefixes{"inspector/render/", "inspector/model/", "inspector/widgets/"};
  static const std::vector<Part> table = {
      {"engine/", {"tessera/*.h", "engine/"}, text},
      {"engine/cuda/",
       {"tessera/*.h", "engine/runtime/", "engine/host/", "engine/swap/", "engine/kernels/",
        "engine/cuda/"},
       text + Prefixes{"dlfcn.h"}},
      {"engine/cuda/module/",
       {"tessera/*.h", "engine/kernels/", "engine/files/block_sum.h", "engine/cuda/"},
       text + cuda + Prefixes{"dlfcn.h"}},
      {"engine/kernels/", {"tessera/*.h", "engine/kernels/"}, text + Prefixes{"dnnl.hpp", "omp.h"}},
      {"engine/host/",
       {"tessera/*.h", "engine/runtime/", "engine/swap/", "engine/host/"},
       text +
           Prefixes{"dlfcn.h", "poll.h", "sys/mman.h", "sys/stat.h", "sys/syscall.h", "unistd.h"}},
      {"engine/swap/",
       {"tessera/*.h", "engine/swap/"},
       text + Prefixes{"liburing.h", "fcntl.h", "unistd.h", "sys/uio.h"}},
      {"engine/files/",
       {"tessera/*.h", "engine/files/"},
       text + Prefixes{"fcntl.h", "unistd.h", "sys/stat.h"}},
      {"engine/mpi/",
       {"tessera/*.h", "engine/runtime/", "engine/host/", "engine/mpi/"},
       text + Prefixes{"mpi.h"}},
      {"sim/",
       {"tessera/*.h", "tessera/sim/", "engine/runtime/", "engine/swap/", "engine/text/", "sim/"},
       text},
      {"storage/", trace_headers + Prefixes{"tessera/storage/", "storage/"},
       text + Prefixes{"sqlite3.h", "unistd.h", "fcntl.h", "sys/stat.h"}},
      {"analysis/",
       trace_headers + Prefixes{"tessera/storage/trace_reader.h", "tessera/analysis/"},
       {}},
      {"inspector/render/", trace_headers + Prefixes{"tessera/inspector/", "inspector/render/"},
       text + window},
      {"inspector/model/", shown + Prefixes{"inspector/render/", "inspector/model/"},
       text + window},
      {"inspector/widgets/", below_panels, text + window},
      {"inspector/details/", below_panels + Prefixes{"inspector/details/"}, text + window},
      {"inspector/memory/", below_panels + Prefixes{"inspector/memory/"}, text + window},
      {"inspector/ranks/", below_panels + Prefixes{"inspector/ranks/"}, text + window},
      {"inspector/timeline/", below_panels + Prefixes{"inspector/timeline/"}, text + window},
      {"inspector/", shown + Prefixes{"tessera/inspector/", "inspector/"}, text + window},
      {"c/", {"tessera/*.h", "tessera/c/", "tessera/sim/", "engine/text/", "c/"}, text},
      {"cli/", every_public + Prefixes{"engine/", "sim/", "storage/", "inspector/", "cli/"},
       text + Prefixes{"CLI/", "sys/", "unistd.h"}},
      {"tests/",
       every_public + Prefixes{"engine/", "sim/", "storage/", "inspector/", "cli/", "tests/"},
       text + window +
           Prefixes{"catch2/", "malloc.h", "sanitizer/", "sqlite3.h", "sys/", "ucontext.h",
                    "unistd.h"}},
      {"examples/", every_public, text},
  };
  return table;
}

const Part* part_of(const SourceFile& file) {
  const Part* best = nullptr;
  for (const Part& part : parts()) {
    if (file.in(part.folder) && (!best || part.folder.size() > best->folder.size())) best = &part;
  }
  return best;
}

bool any_prefix_of(const std::string& name, const Prefixes& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (prefix == "tessera/*.h") {
      if (name.starts_with("tessera/") && name.find('/', 8) == std::string::npos) return true;
    } else if (name.starts_with(prefix)) {
      return true;
    }
  }
  return false;
}

/// "" or what is wrong.
std::string judge(const SourceFile& file, const Part& part, const std::string& name, bool quoted) {
  if (quoted) {
    if (file.is_public_header() && !name.starts_with("tessera/")) {
      return "a public header includes a private one";
    }
    const auto inside = [&](const char* folder) { return part.folder.starts_with(folder); };
    if (name.starts_with("engine/mpi/") && !inside("engine/mpi/")) {
      return "carriers are opened at run time, never included";
    }
    if (name.starts_with("engine/cuda/") && !inside("engine/cuda/") && !inside("tests/")) {
      return "carriers are opened at run time, never included";
    }
    return any_prefix_of(name, part.own) ? "" : part.folder + " may not include it";
  }
  static const std::regex standard(R"([a-z_0-9]+)");
  if (std::regex_match(name, standard)) return "";
  if (file.is_public_header()) return "public headers need the standard library only";
  return any_prefix_of(name, part.foreign) ? "" : part.folder + " may not include it";
}

}  // namespace

Findings check_includes(const SourceFile& file) {
  Findings findings;
  const Part* part = part_of(file);
  if (!part) return {{file.path, 0, "this folder has no line in the include table"}};
  const std::vector<std::string> lines = lines_of(without_comments(file.text));
  static const std::regex include(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(lines[i], match, include)) continue;
    const std::string problem = judge(file, *part, match[2], match[1] == "\"");
    if (!problem.empty()) {
      findings.push_back({file.path, static_cast<int>(i + 1), match[2].str() + ": " + problem});
    }
  }
  return findings;
}

}  // namespace tidy
