# SPDX-License-Identifier: Apache-2.0
# cmake -DPACKAGE=... -DPREFIX=... -DLIBDIR=... -DCOMPILER=... -DSOURCE=... -DARGUMENT=... -P this
# Builds SOURCE with what pkg-config says about an installed PACKAGE, and runs it.
set(ENV{PKG_CONFIG_PATH} ${PREFIX}/${LIBDIR}/pkgconfig)
find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
foreach(what cflags libs)
  execute_process(COMMAND ${pkg_config} --${what} ${PACKAGE} OUTPUT_VARIABLE ${what}
                  COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(${what} UNIX_COMMAND "${${what}}")
endforeach()
set(program ${PREFIX}/${PACKAGE}-consumer)
execute_process(COMMAND ${COMPILER} ${cflags} ${SOURCE} -o ${program} ${libs}
                COMMAND_ERROR_IS_FATAL ANY)
set(ENV{LD_LIBRARY_PATH} ${PREFIX}/${LIBDIR})
execute_process(COMMAND ${program} ${ARGUMENT} COMMAND_ERROR_IS_FATAL ANY)
