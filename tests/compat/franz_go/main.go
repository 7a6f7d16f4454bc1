// SCENARIO BOOTSTRAP TOPIC GROUP: one scenario with the client franz-go; on an error it exits with code 1.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type life struct {
	ctx              context.Context
	bootstrap        string
	topic, groupName string
	opened           []*kgo.Client
}

func (l *life) client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(append([]kgo.Opt{
		kgo.SeedBrokers(l.bootstrap),
		kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}, secured()...), options...)...)
	must(err)
	l.opened = append(l.opened, client)
	return client
}

// secured is TLS and a login, if the environment names a user.
func secured() []kgo.Opt {
	user := os.Getenv("LIFE_USER")
	if user == "" {
		return nil
	}
	authority, err := os.ReadFile(os.Getenv("LIFE_CA"))
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	login := scram.Auth{User: user, Pass: os.Getenv("LIFE_PASSWORD")}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(login.AsSha512Mechanism())}
}

func (l *life) admin() *kadm.Client { return kadm.NewClient(l.client()) }

func (l *life) create(partitions int32, configs map[string]*string) {
	_, err := l.admin().CreateTopic(l.ctx, partitions, 1, configs, l.topic)
	must(err)
}

func (l *life) send(client *kgo.Client, values ...string) {
	for _, value := range values {
		record := &kgo.Record{Topic: l.topic, Value: []byte(value)}
		must(client.ProduceSync(l.ctx, record).FirstErr())
	}
}

func (l *life) take(client *kgo.Client, count int) []*kgo.Record {
	var records []*kgo.Record
	for len(records) < count {
		fetches := client.PollFetches(l.ctx)
		for _, failed := range fetches.Errors() {
			must(failed.Err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(ok bool, what string, got ...any) {
	if !ok {
		panic(fmt.Sprintf("%s: %v", what, got))
	}
}

func text(s string) *string { return &s }

func (l *life) topics() {
	admin := l.admin()
	made, err := admin.CreateTopic(l.ctx, 2, 1, map[string]*string{"retention.ms": text("100000")}, l.topic)
	must(err)
	check(made.NumPartitions == 2 && made.ReplicationFactor == 1, "created", made)
	_, err = admin.CreateTopic(l.ctx, 2, 1, nil, l.topic)
	check(errors.Is(err, kerr.TopicAlreadyExists), "created twice", err)
	grown, err := admin.UpdatePartitions(l.ctx, 5, l.topic)
	must(err)
	must(grown.Error())
	for {
		details, err := admin.ListTopics(l.ctx, l.topic)
		must(err)
		if len(details[l.topic].Partitions) == 5 {
			check(details[l.topic].ID == made.ID, "topic id", details[l.topic].ID, made.ID)
			break
		}
	}
	configs, err := admin.DescribeTopicConfigs(l.ctx, l.topic)
	must(err)
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" {
			check(config.MaybeValue() == "100000", "retention", config)
		}
	}
	altered, err := admin.AlterTopicConfigs(l.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.ms", Value: text("x")}}, l.topic)
	must(err)
	check(errors.Is(altered[0].Err, kerr.InvalidConfig), "bad setting", altered)
	metadata, err := admin.BrokerMetadata(l.ctx)
	must(err)
	check(len(metadata.Brokers) == 1 && metadata.Controller == metadata.Brokers[0].NodeID, "brokers", metadata)
	deleted, err := admin.DeleteTopics(l.ctx, l.topic)
	must(err)
	must(deleted.Error())
}

func (l *life) records() {
	l.create(1, nil)
	now := time.UnixMilli(time.Now().UnixMilli() - 5000)
	producer := l.client()
	sent := []*kgo.Record{
		{Topic: l.topic, Key: []byte("k"), Value: []byte("v"), Timestamp: now, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}}},
		{Topic: l.topic, Value: []byte("no key"), Timestamp: now.Add(time.Millisecond)},
		{Topic: l.topic, Key: []byte("no value"), Timestamp: now},
	}
	must(producer.ProduceSync(l.ctx, sent...).FirstErr())
	got := l.take(l.client(kgo.ConsumeTopics(l.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), len(sent))
	for index, record := range got {
		wanted := sent[index]
		same := bytes.Equal(record.Key, wanted.Key) && (record.Key == nil) == (wanted.Key == nil) &&
			bytes.Equal(record.Value, wanted.Value) && (record.Value == nil) == (wanted.Value == nil) &&
			record.Timestamp.Equal(wanted.Timestamp) && len(record.Headers) == len(wanted.Headers) && record.Offset == int64(index)
		check(same, "record", index, record, wanted)
	}
}

func (l *life) codecs() {
	l.create(1, nil)
	var wanted []string
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		producer := l.client(kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(20*time.Millisecond))
		for number := range 200 {
			value := fmt.Sprintf("%v %d %s", codec, number, bytes.Repeat([]byte("x"), 200))
			wanted = append(wanted, value)
			producer.Produce(l.ctx, &kgo.Record{Topic: l.topic, Value: []byte(value)}, func(_ *kgo.Record, err error) { must(err) })
		}
		must(producer.Flush(l.ctx))
	}
	for index, record := range l.take(l.client(kgo.ConsumeTopics(l.topic)), len(wanted)) {
		check(string(record.Value) == wanted[index], "record", index, record.Offset)
	}
}

func (l *life) offsets() {
	l.create(1, nil)
	producer := l.client()
	base := time.Now().UnixMilli() - 60_000
	for index, delta := range []int64{0, 500, 100} {
		must(producer.ProduceSync(l.ctx, &kgo.Record{Topic: l.topic, Value: []byte{byte(index)}, Timestamp: time.UnixMilli(base + delta)}).FirstErr())
	}
	admin := l.admin()
	at := func(listed kadm.ListedOffsets, err error) int64 {
		must(err)
		must(listed.Error())
		found, _ := listed.Lookup(l.topic, 0)
		return found.Offset
	}
	check(at(admin.ListStartOffsets(l.ctx, l.topic)) == 0, "start")
	check(at(admin.ListEndOffsets(l.ctx, l.topic)) == 3, "end")
	check(at(admin.ListMaxTimestampOffsets(l.ctx, l.topic)) == 1, "largest timestamp")
	check(at(admin.ListOffsetsAfterMilli(l.ctx, base+1, l.topic)) == 1, "by time")
	cut := kadm.Offsets{}
	cut.AddOffset(l.topic, 0, 2, -1)
	deleted, err := admin.DeleteRecords(l.ctx, cut)
	must(err)
	must(deleted.Error())
	check(at(admin.ListStartOffsets(l.ctx, l.topic)) == 2, "start after deletion")
	got := l.take(l.client(kgo.ConsumeTopics(l.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 1)
	check(got[0].Offset == 2, "first record", got[0].Offset)
}

func (l *life) group() {
	l.create(4, nil)
	options := func(extra ...kgo.Opt) []kgo.Opt {
		return append([]kgo.Opt{
			kgo.ConsumerGroup(l.groupName), kgo.ConsumeTopics(l.topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100 * time.Millisecond),
			kgo.Balancers(kgo.CooperativeStickyBalancer()),
		}, extra...)
	}
	producer := l.client(kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	l.send(producer, "a", "b", "c", "d")
	first := l.client(options()...)
	records := l.take(first, 4)
	must(first.CommitRecords(l.ctx, records...))
	second := l.client(options(kgo.InstanceID("static"))...)
	admin := l.admin()
	for {
		described, err := admin.DescribeGroups(l.ctx, l.groupName)
		must(err)
		group := described[l.groupName]
		must(group.Err)
		var parts []int
		for _, member := range group.Members {
			if assigned, ok := member.Assigned.AsConsumer(); ok && len(assigned.Topics) == 1 {
				parts = append(parts, len(assigned.Topics[0].Partitions))
			}
		}
		if group.State == "Stable" && slices.Equal(parts, []int{2, 2}) {
			break
		}
		for _, member := range []*kgo.Client{first, second} {
			ctx, cancel := context.WithTimeout(l.ctx, 50*time.Millisecond)
			member.PollFetches(ctx)
			cancel()
		}
	}
	lag, err := admin.Lag(l.ctx, l.groupName)
	must(err)
	check(lag[l.groupName].Lag.Total() == 0, "lag", lag)
	_, err = admin.DeleteGroup(l.ctx, l.groupName)
	check(errors.Is(err, kerr.NonEmptyGroup), "delete of a living group", err)
	first.LeaveGroup()
	// A static member stays in its group when it closes. While it lives it would join again once it is removed.
	second.Close()
	left, err := admin.LeaveGroup(l.ctx, kadm.LeaveGroup(l.groupName).InstanceIDs("static"))
	must(err)
	must(left.Error())
	committed := kadm.Offsets{}
	committed.AddOffset(l.topic, 0, 0, -1)
	must(admin.CommitAllOffsets(l.ctx, l.groupName, committed))
	fetched, err := admin.FetchOffsets(l.ctx, l.groupName)
	must(err)
	found, ok := fetched.Lookup(l.topic, 0)
	check(ok && found.At == 0, "offset", fetched)
	_, err = admin.DeleteGroup(l.ctx, l.groupName)
	must(err)
	groups, err := admin.ListGroups(l.ctx)
	must(err)
	check(!slices.Contains(groups.Groups(), l.groupName), "deleted group", groups.Groups())
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	l := &life{ctx: ctx, bootstrap: os.Args[2], topic: os.Args[3], groupName: os.Args[4]}
	scenarios := map[string]func(){"topics": l.topics, "records": l.records, "codecs": l.codecs, "offsets": l.offsets, "group": l.group}
	scenarios[os.Args[1]]()
	for _, client := range l.opened {
		client.Close()
	}
}
