"""A py-libp2p host that only helps peers to find each other: a rendezvous point or a DHT server."""

import argparse
import json

import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_noise_key
from libp2p.discovery.rendezvous.service import RendezvousService
from libp2p.kad_dht.kad_dht import DHTMode, KadDHT
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as NoiseTransport
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from libp2p import new_host


async def serve(flags):
    keys = create_new_key_pair()
    noise = NoiseTransport(libp2p_keypair=keys, noise_privkey=create_noise_key().private_key)
    host = new_host(key_pair=keys, sec_opt={NOISE: noise}, muxer_preference="YAMUX")
    async with host.run(listen_addrs=[Multiaddr("/ip4/127.0.0.1/tcp/0")]):
        print(json.dumps({"event": "listening", "address": str(host.get_addrs()[0])}), flush=True)
        if flags.as_a == "rendezvous":
            RendezvousService(host)
            await trio.sleep_forever()
        async with background_trio_service(KadDHT(host, DHTMode.SERVER)):
            await trio.sleep_forever()


parser = argparse.ArgumentParser()
parser.add_argument("--as-a", choices=["rendezvous", "dht"], required=True)
trio.run(serve, parser.parse_args())
