# Until the machine loses its power: files are synced one by one and acknowledged; others are not synced.
i=0
mkdir -p $dir/durable
sync $dir/durable $dir
while :; do
    i=$((i + 1))
    echo "content of $i" >$dir/durable/@ROUND@-$i
    echo "unsynced $i" >$dir/durable/unsynced-$i
    sync $dir/durable/@ROUND@-$i
    echo "synced $i"
    [ $i -ne 20 ] || echo "virtiofs: cut"
done
