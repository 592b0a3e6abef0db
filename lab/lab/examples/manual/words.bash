# A list after -o and -O is completed from its last comma on, and words with = and : as a whole, which readline splits.
_segno_words() {
    local line=${COMP_LINE:0:COMP_POINT} list= broken=
    local -a COMP_WORDS
    read -ra COMP_WORDS <<<"$line"
    [[ $line != *[[:space:]] ]] || COMP_WORDS+=("")
    local COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    local word=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    case $prev in
        -o | -O | --options | --features) [[ $word != *,* ]] || list=${word%,*}, ;;
    esac
    _segno "$1" "${word#"$list"}" "$prev"
    COMPREPLY=("${COMPREPLY[@]/#/$list}")
    # Only what follows the last break is replaced.
    [[ $word != *[=:]* ]] || broken=${word%"${word##*[=:]}"}
    COMPREPLY=("${COMPREPLY[@]#"$broken"}")
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -F _segno_words -o bashdefault -o default segno
