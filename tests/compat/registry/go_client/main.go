// Writes and reads records of an Avro schema: Confluent's serializers with the schema registry, franz-go with the
// broker.
//
//	go_client write REGISTRY BOOTSTRAP TOPIC SCHEMA ITEM COUNT
//	go_client read REGISTRY BOOTSTRAP TOPIC RECORDS
//
// `read` prints the records as a JSON list of [id, item, count].
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/avrov2"
	"github.com/twmb/franz-go/pkg/kgo"
)

const headerBytes = 5

func main() {
	mode, registry, bootstrap, topic := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DefaultProduceTopic(topic))
	check(err)
	defer client.Close()
	schemas, err := schemaregistry.NewClient(schemaregistry.NewConfig(registry))
	check(err)
	if mode == "write" {
		count, err := strconv.Atoi(os.Args[7])
		check(err)
		write(ctx, client, schemas, topic, os.Args[5], order{os.Args[6], count})
		return
	}
	wanted, err := strconv.Atoi(os.Args[5])
	check(err)
	read(ctx, client, schemas, topic, wanted)
}

type order struct {
	Item  string `avro:"item"`
	Count int    `avro:"count"`
}

func write(ctx context.Context, client *kgo.Client, schemas schemaregistry.Client, topic, text string, each order) {
	_, err := schemas.Register(topic+"-value", schemaregistry.SchemaInfo{Schema: text}, false)
	check(err)
	config := avrov2.NewSerializerConfig()
	config.AutoRegisterSchemas = false
	config.UseLatestVersion = true
	serializer, err := avrov2.NewSerializer(schemas, serde.ValueSerde, config)
	check(err)
	value, err := serializer.Serialize(topic, &each)
	check(err)
	check(client.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr())
}

func read(ctx context.Context, client *kgo.Client, schemas schemaregistry.Client, topic string, wanted int) {
	deserializer, err := avrov2.NewDeserializer(schemas, serde.ValueSerde, avrov2.NewDeserializerConfig())
	check(err)
	found := [][]any{}
	for len(found) < wanted {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			var each order
			check(deserializer.DeserializeInto(topic, record.Value, &each))
			found = append(found, []any{binary.BigEndian.Uint32(record.Value[1:headerBytes]), each.Item, each.Count})
		})
	}
	text, err := json.Marshal(found)
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
