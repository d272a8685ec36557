# SPDX-License-Identifier: Apache-2.0
# cmake -DPROGRAM=... -P this: the program links the standard library and fmt, and nothing else.
execute_process(COMMAND ldd ${PROGRAM} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${text}")
foreach(line ${lines})
  string(REGEX REPLACE "^[ \t]*([^ ]+).*" "\\1" library "${line}")
  get_filename_component(name ${library} NAME)
  if(NOT name MATCHES "^(linux-vdso|ld-linux.*|lib(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m|gcc_s|c|fmt))[-.]")
    message(FATAL_ERROR "the core links ${name}")
  endif()
  message(STATUS "${name}")
endforeach()
