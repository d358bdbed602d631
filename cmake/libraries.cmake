# libraries.cmake - the libraries that vramwise uses where they are there, and what it lacks without.
#
# Each is looked for by its header and its archive or shared library, without pkg-config, and becomes
# a target vw_<name> and a variable VW_HAS_<NAME>; the code sees a definition of the same name. One
# that is missing switches its part off, with one line. -DVW_WITH_<NAME>=OFF does as if it were missing.
option(VW_STATIC_LIBRARIES "link other libraries statically, as a wheel needs it" OFF)

# vw_library(NAME pkg-config's name, HEADER, LIBRARIES, WITHOUT): the first of LIBRARIES must be
# there, the others are taken where they are.
function(vw_library name module header libraries without)
  string(TOUPPER ${name} upper)
  option(VW_WITH_${upper} "use ${module}" ON)
  set(found)
  if(VW_WITH_${upper})
    find_path(VW_${upper}_INCLUDE ${header} PATH_SUFFIXES ncursesw)
    if(VW_STATIC_LIBRARIES)
      set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
    endif()
    foreach(library ${libraries})
      string(MAKE_C_IDENTIFIER VW_${library}_LIBRARY variable)
      find_library(${variable} ${library})
      mark_as_advanced(${variable})
      if(${variable})
        list(APPEND found ${${variable}})
      elseif(NOT found)
        break()
      endif()
    endforeach()
    mark_as_advanced(VW_${upper}_INCLUDE)
  endif()
  set(VW_HAS_${upper} OFF PARENT_SCOPE)
  add_library(vw_${name} INTERFACE)
  if(NOT found OR NOT VW_${upper}_INCLUDE)
    message(NOTICE "no ${module}: ${without}")
    return()
  endif()
  set(VW_HAS_${upper} ON PARENT_SCOPE)
  target_include_directories(vw_${name} SYSTEM INTERFACE ${VW_${upper}_INCLUDE})
  target_compile_definitions(vw_${name} INTERFACE VW_HAS_${upper})
  target_link_libraries(vw_${name} INTERFACE ${found})
endfunction()

vw_library(zlib zlib zlib.h z "files compressed with gzip are not read, view is not built")
vw_library(lzma liblzma lzma.h lzma "files compressed with xz are not read")
vw_library(zstd libzstd zstd.h zstd "files compressed with zstd are not read")
vw_library(microhttpd libmicrohttpd microhttpd.h microhttpd
  "view --serve, exporter and run --metrics are not built")
vw_library(ncurses ncursesw curses.h "ncursesw;tinfo" "top has no screen, only --once")

# What reads files: a target, and the names of its libraries for linkers and for pkg-config.
add_library(vw_readers INTERFACE)
set(reader_names)
set(reader_modules)
macro(vw_reader name library module)
  string(TOUPPER ${name} reader)
  target_link_libraries(vw_readers INTERFACE vw_${name})
  if(VW_HAS_${reader})
    list(APPEND reader_names ${library})
    string(APPEND reader_modules " ${module}")
  endif()
endmacro()
vw_reader(zlib z zlib)
vw_reader(lzma lzma liblzma)
vw_reader(zstd zstd libzstd)
